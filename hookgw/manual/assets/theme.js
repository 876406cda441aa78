// Before anything is painted: the theme that the reader has chosen. Without a choice, it is the system's.
try {
  const theme = localStorage.getItem("hookgw-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is off */ }
