// Moves the secret of a portal link from the address into the form: it stays out of the history, and its reader
// has only to press the button. It is not sent by itself, because programs that check links run scripts, too.

export function takePortalLink() {
  const field = document.querySelector("[data-portal]");
  if (!field || location.hash.length < 2) return;
  field.querySelector("input").value = location.hash.slice(1);
  field.hidden = true;
  history.replaceState(null, "", location.pathname);
}
