// Searches the index that is made with the pages. Each word must be in the heading or in the text below it; words
// need not be complete. What is in a title counts most.

const field = document.getElementById("query");
const box = document.getElementById("found");
const MOST = 12;

export async function open(_, address, home) {
  const { pages, entries } = await (await fetch(address)).json();
  const known = entries.map(([page, anchor, title, excerpt, words]) => ({
    page: pages[page], anchor, title, excerpt, words: ` ${words} ${excerpt.toLowerCase()} `,
    titles: ` ${title} ${anchor ? "" : pages[page][1]}`.toLowerCase(), pageTitle: ` ${pages[page][1]}`.toLowerCase(),
  }));

  function score(one, wanted) {
    let sum = 0;
    for (const word of wanted) {
      if (one.titles.includes(` ${word}`)) sum += one.anchor ? 20 : 30;
      else if (one.titles.includes(word)) sum += 12;
      else if (one.words.includes(` ${word} `)) sum += 5;
      else if (one.words.includes(` ${word}`)) sum += 3;
      else if (one.words.includes(word)) sum += 1;
      else if (one.pageTitle.includes(word)) sum += 2;
      else return 0;
    }
    return sum;
  }

  function marked(text, wanted) {
    const place = document.createElement("small");
    const pattern = new RegExp(`(${wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
    text.split(pattern).forEach((piece, index) => {
      const node = index % 2 ? document.createElement("mark") : document.createTextNode(piece);
      if (index % 2) node.textContent = piece;
      place.append(node);
    });
    return place;
  }

  function show(text) {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    box.hidden = wanted.length === 0;
    if (box.hidden) return;
    const found = known.map((one) => [score(one, wanted), one]).filter(([sum]) => sum > 0)
      .sort(([a], [b]) => b - a);
    const count = document.createElement("p");
    count.setAttribute("role", "status");
    count.textContent = found.length ? _("Found: {n}", { n: found.length }) : _("Nothing has all of these words. Try fewer.");
    const list = document.createElement("ul");
    for (const [, one] of found.slice(0, MOST)) {
      const link = document.createElement("a");
      const [path, title, section] = one.page;
      link.href = new URL(path, home).href + (one.anchor ? `#${one.anchor}` : "");
      link.append(one.anchor ? `${title} › ${one.title}` : title, marked(`${section}: ${one.excerpt}`, wanted));
      const row = document.createElement("li");
      row.append(link);
      list.append(row);
    }
    box.replaceChildren(count, list);
  }

  return { show };
}

function move(step) {
  const links = [field, ...box.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  links[(at + step + links.length) % links.length].focus();
}

addEventListener("keydown", (event) => {
  if (box.hidden || !(document.activeElement === field || box.contains(document.activeElement))) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter" && document.activeElement === field) {
    box.querySelector("a")?.click();
  } else if (event.key === "Escape") {
    box.hidden = true;
    field.focus();
  }
});
addEventListener("click", (event) => { if (!event.target.closest(".search") || event.target.closest("#found a")) box.hidden = true; });
