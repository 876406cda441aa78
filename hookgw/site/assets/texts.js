// Texts in the language of the page. The server collects the marked ones from the modules, and puts their translations
// into the page: see hookgw/site/languages.py.

const texts = JSON.parse(document.documentElement.dataset.texts ?? "{}");

// Marks a text that is translated later.
export const N_ = (text) => text;

export function _(text, values = {}) {
  return (texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// The reader's own variety of the page's language, for dates and numbers.
export const locale = (() => {
  const { lang } = document.documentElement;
  const base = (tag) => tag.split("-")[0];
  return navigator.languages.find((tag) => base(tag) === base(lang)) ?? lang;
})();
