"use strict";
// All numbers are packed in the page; nothing here asks for anything from elsewhere, and no text
// becomes markup.

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Numbers {
  constructor(data) {
    this.data = data;
    this.length = data.rows[0].length;
    this.bad = data.statuses.indexOf("stands out");
    this.texts = new Array(this.length);
  }
  values(row) {
    const { conditions, checks, places, statuses, rows } = this.data;
    const about = conditions[rows[0][row]];
    const share = rows[4][row];
    return [checks[about.check], about.partition, places[rows[1][row]], about.measured, rows[2][row],
      about.unit, about.reference, share === null ? NaN : share / 10, statuses[rows[3][row]]];
  }
  cells(row) { return this.values(row).map((v) => (typeof v !== "number" ? v : Number.isNaN(v) ? "-" : String(v))); }
  text(row) { return (this.texts[row] ??= this.cells(row).join(" ").toLowerCase()); }
  key(row, column) { return this.values(row)[column]; }
  node(row) {
    const made = element("tr", undefined, this.data.rows[3][row] >= this.bad ? "bad" : "");
    this.cells(row).forEach((cell, column) => {
      const isNumber = column === 4 || column === 7;
      made.append(element("td", cell, isNumber ? "n" : cell.length <= 24 && !cell.includes(" ") ? "word" : ""));
    });
    return made;
  }
}

// What was pointed at in a figure, in the table of its numbers.
function list(table, box, words) {
  if (!table) return;
  table.input.value = words;
  table.filter();
  box.scrollIntoView();
  table.input.focus({ preventScroll: true });
}

function openForPrint(figures) {
  const closed = [];
  addEventListener("beforeprint", () => {
    while (figures.length) figures.shift()();
    document.querySelectorAll("details:not([open])").forEach((one) => { one.open = true; closed.push(one); });
  });
  addEventListener("afterprint", () => closed.splice(0).forEach((one) => { one.open = false; }));
}

// One after the other, so that the page answers in between; paper has them all at once. A busy machine
// is never idle: requestIdleCallback would not come.
async function drawAll(figures) {
  while (figures.length) {
    await new Promise((then) => setTimeout(then));
    figures.shift()?.();
  }
  document.documentElement.dataset.drawn = "yes";
}

async function main() {
  const left = [];
  openForPrint(left);
  document.querySelectorAll(".table:not(#all, #changes)").forEach((box) =>
    new DataTable(box, new DomRows(box.querySelector("tbody"))));
  const data = await unpack(document.getElementById("data").textContent);
  const numbers = document.getElementById("all");
  const table = numbers && new DataTable(numbers, new Numbers(data));
  const moved = document.getElementById("changes"), volcano = document.getElementById("volcano");
  const changes = moved && new DataTable(moved, new Changes(data.changes));
  const curve = (figure) => drawCurve(figure, data.curves[Number(figure.dataset.curve)]);
  document.querySelectorAll(".heat, figure.curve, .volcano").forEach((box) => left.push(() => {
    if (box.matches(".heat")) new HeatMap(box, data, (words) => list(table, numbers, words));
    else if (box === volcano) new Volcano(box, data.changes, (words) => list(changes, moved, words));
    else curve(box);
  }));
  const draw = () => document.querySelectorAll("figure.curve").forEach((figure) => {
    if (figure.querySelector("canvas")) curve(figure);
  });
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.ready = "yes";
  drawAll(left);
}

main();
