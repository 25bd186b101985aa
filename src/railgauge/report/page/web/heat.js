"use strict";
// A map of pairs: node by node, node by rail, or leaf by rail.

// Cividis (Nunez et al. 2018), made for readers that do not distinguish red from green; worst first.
const CIVIDIS = ["#fde945", "#cbba69", "#959078", "#666970", "#31446b", "#00204d"].map((colour) =>
  [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16)));

const COLOURS = Array.from({ length: 256 }, (_, level) => {
  const at = (level / 255) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  const mixed = CIVIDIS[low].map((from, i) => Math.round(from + (CIVIDIS[low + 1][i] - from) * (at - low)));
  return `rgb(${mixed})`;
});

function colour(share) { return COLOURS[Math.round(Math.min(Math.max(share, 0), 1) * 255)]; }

// On each of these colours, and so by day and by night.
const WRONG = "#a83200";

// Of a node in a map by rails, in pixels.
const LEAST_WIDTH = 5;

// Of more nodes the leaves are shown first.
const CROWDED = 128;

// Of fewer cells the table is read sooner.
const LEAST_CELLS = 3;

function short(value) {
  return value >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

class HeatMap {
  constructor(box, data, drill) {
    this.box = box;
    this.data = data;
    this.drill = drill;
    this.check = data.checks.indexOf(box.dataset.name);
    this.bad = data.statuses.indexOf("stands out");
    this.ends = new Map();
    // Two numbers as one that is small enough for a fast key: more than nodes, and than any rail.
    const rails = data.rails.flatMap((rail) => rail.split("-").map(Number));
    this.named = rails.every(Number.isFinite);
    this.step = Math.max(data.nodes.length, data.leaves.length, ...rails.filter(Number.isFinite)) + 1;
    this.choices = this.conditions();
    if (!this.choices.length) return;
    box.hidden = false;
    this.build();
    this.show();
    new ResizeObserver(() => { if (box.clientWidth !== this.wide) this.draw(); }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // Conditions with several pairs, and whether their places have rails; null where no number came.
  conditions() {
    const { rows, ends, conditions, silent } = this.data;
    const places = new Map();
    for (let row = 0; row < rows[0].length; row++) {
      const condition = rows[0][row], end = ends[rows[1][row]];
      if (conditions[condition].check !== this.check || end[1] < 0) continue;
      const found = places.get(condition) ?? { rows: [], nodes: new Set(), pairs: new Set(), rails: false, bad: 0 };
      found.rows.push(row);
      found.pairs.add(`${end[0]} ${end[1]}`);
      found.nodes.add(end[0]).add(end[1]);
      found.rails ||= end[2] > 0;
      found.bad += rows[2 + 1][row] >= this.bad;
      places.set(condition, found);
    }
    this.silent = silent.filter(([check, place]) => check === this.check && ends[place][1] >= 0);
    const rails = this.silent.some(([, place]) => ends[place][2] > 0);
    const made = [];
    for (const [condition, found] of places) {
      const about = conditions[condition];
      const weight = (found.bad ? 4 : 0) + (about.gates ? 2 : 0) + (about.comparable ? 1 : 0);
      const title = `${about.measured}, ${about.partition}`;
      made.push({ about, rows: found.rows, by: "nodes", least: found.pairs.size, weight: weight + 0.5, title: `${title}: node × node` });
      // Of many nodes with a few partners each, nearly all cells of node × node are empty.
      const sparse = found.pairs.size < (found.nodes.size * found.nodes.size) / 4 ? 1 : 0;
      const leaves = this.leavesOf(found.nodes);
      const ended = this.named ? found.nodes.size : 0;
      if (found.rails || leaves > 1) made.push({ about, rows: found.rows, by: "rails", least: ended, weight: weight + sparse, title: `${title}: node × rail` });
      // Of more nodes than a screen has room for the leaves come first.
      const crowded = found.nodes.size > CROWDED ? 1.5 : 0.25;
      if (leaves > 1) made.push({ about, rows: found.rows, by: "leaves", weight: weight + crowded, title: `${title}: leaf × rail` });
    }
    if (!made.length && this.silent.some(([, , status]) => status >= this.bad)) {
      made.push({ about: null, rows: [], by: "nodes", weight: 1, title: "no number came: node × node" });
      if (rails) made.push({ about: null, rows: [], by: "rails", weight: 0, title: "no number came: node × rail" });
    }
    return made.sort((a, b) => b.weight - a.weight)
      .filter((choice) => choice.least >= LEAST_CELLS || this.cellsOf(choice).size >= LEAST_CELLS);
  }

  leavesOf(nodes) { return new Set([...nodes].map((node) => this.data.leaf_of[node]).filter((leaf) => leaf >= 0)).size; }

  build() {
    const tools = element("div", undefined, "tools");
    const label = element("label", "Map ");
    this.select = element("select");
    this.choices.forEach((choice, number) => {
      const option = element("option", choice.title);
      option.value = String(number);
      this.select.append(option);
    });
    this.select.addEventListener("change", () => { this.only = undefined; this.show(); });
    label.append(this.select);
    this.back = element("button", "All leaves");
    this.back.type = "button";
    this.back.addEventListener("click", () => this.select.dispatchEvent(new Event("change")));
    tools.append(label, this.back);
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.read = element("div", "", "read");
    this.read.setAttribute("role", "status");
    this.legend = element("div", undefined, "legend");
    this.box.append(tools, this.legend, this.canvas, this.read);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.say(this.cursor));
    this.canvas.addEventListener("click", (event) => { this.point(event); this.enter(this.under); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => { this.cursor ??= this.cells[0]; this.say(this.cursor); this.draw(); });
  }

  show() {
    const chosen = this.choices[Number(this.select.value || 0)];
    const ofOne = this.only !== undefined;
    this.choice = ofOne ? { ...chosen, by: "rails", title: chosen.title.replace("leaf ×", `nodes of ${this.data.leaves[this.only]} ×`) } : chosen;
    this.back.hidden = !ofOne;
    this.collect();
    this.scale();
    this.describe();
    this.cursor = this.under = undefined;
    this.read.textContent = `Point at a cell, or use the arrow keys; click or Enter ${this.choice.by === "leaves" ? "shows the nodes of the leaf" : "lists its numbers below"}.`;
    this.draw();
  }

  keysOf(place, by) {
    const [a, b, rails] = this.data.ends[place];
    if (by === "nodes") return [[a, b]];
    const [left, right] = this.data.rails[rails].split("-").map(Number);
    return [[a, left], [b, right ?? left]].filter(([, rail]) => Number.isFinite(rail));
  }

  // The cells of a choice by column and line: of a pair the worst of its places, of a node's rail the
  // best, as one that is bad with one partner alone may be good, and of a leaf's rail its worst node.
  cellsOf(choice) {
    if (choice.by === "leaves") return this.leafCells(choice);
    const cells = this.endsOf(choice);
    if (this.only === undefined) return cells;
    return new Map([...cells].filter(([, cell]) => this.data.leaf_of[cell.x] === this.only));
  }

  leafCells(choice) {
    const cells = new Map();
    for (const cell of this.endsOf({ ...choice, by: "rails" }).values()) {
      const leaf = this.data.leaf_of[cell.x];
      if (leaf < 0) continue;
      const key = leaf * this.step + cell.y, known = cells.get(key);
      const worse = !known || cell.status > known.status || (cell.status === known.status && cell.value !== null &&
        (known.value === null || (choice.about?.more ?? true) === cell.value < known.value));
      cells.set(key, { ...(worse ? cell : known), x: leaf, y: cell.y, count: (known?.count ?? 0) + 1 });
    }
    return cells;
  }

  // Found once: by pairs, or by ends.
  endsOf(choice) {
    const key = `${choice.rows[0]} ${choice.by === "nodes"}`;
    if (!this.ends.has(key)) this.ends.set(key, this.endsFound(choice));
    return this.ends.get(key);
  }

  endsFound(choice) {
    const { rows } = this.data;
    const more = choice.about?.more ?? true;
    const sign = choice.by === "nodes" ? 1 : -1;
    const cells = new Map();
    const put = (place, value, status) => {
      for (const [x, y] of this.keysOf(place, choice.by)) {
        const key = x * this.step + y;
        const known = cells.get(key);
        const further = !known || sign * (status - known.status) > 0 ||
          (status === known.status && value !== null && sign * (more ? known.value - value : value - known.value) > 0);
        if (further) cells.set(key, { x, y, value: value ?? known?.value ?? null, status, place, count: (known?.count ?? 0) + 1, column: 0, line: 0 });
        else known.count++;
      }
    };
    for (const row of choice.rows) put(rows[1][row], rows[2][row], rows[3][row]);
    for (const [, place, status] of this.silent) put(place, null, status);
    return cells;
  }

  collect() {
    const cells = this.cellsOf(this.choice);
    const across = new Set(), down = new Set(), sorted = (some) => [...some].sort((a, b) => a - b);
    for (const cell of cells.values()) {
      across.add(cell.x);
      down.add(cell.y);
    }
    if (this.choice.by === "nodes") {
      this.columns = this.lines = sorted(new Set([...across, ...down]));
      this.names = [this.data.nodes, this.data.nodes];
    } else {
      this.columns = sorted(across);
      this.lines = sorted(down);
      this.names = [this.choice.by === "leaves" ? this.data.leaves : this.data.nodes, null];
    }
    const columns = new Map(this.columns.map((node, at) => [node, at]));
    const lines = new Map(this.lines.map((node, at) => [node, at]));
    this.cells = [...cells.values()];
    for (const cell of this.cells) {
      cell.column = columns.get(cell.x);
      cell.line = lines.get(cell.y);
    }
    this.at = new Map(this.cells.map((cell) => [cell.line * this.step + cell.column, cell]));
    this.cells.sort((a, b) => a.line - b.line || a.column - b.column);
    // The worst are drawn last, over the others.
    this.painted = this.data.statuses.flatMap((_, status) => this.cells.filter((cell) => cell.status === status));
  }

  scale() {
    const values = this.cells.map((cell) => cell.value).filter((value) => value !== null).sort((a, b) => a - b);
    const median = values[values.length >> 1] ?? 1;
    // Places that are all alike look alike.
    this.low = Math.min(values[0] ?? 0, median * 0.9);
    this.high = Math.max(values[values.length - 1] ?? 1, median * 1.1);
  }

  share(value) {
    const part = this.high > this.low ? (value - this.low) / (this.high - this.low) : 1;
    return this.choice.about.more ? part : 1 - part;
  }

  describe() {
    const about = this.choice.about;
    const bad = this.cells.filter((cell) => cell.status >= this.bad).length;
    const strip = element("canvas");
    strip.width = 120;
    strip.height = 12;
    const pen = strip.getContext("2d");
    for (let x = 0; x < 120; x++) {
      pen.fillStyle = colour(x / 119);
      pen.fillRect(x, 0, 1, 12);
    }
    const ends = about ? [about.more ? this.low : this.high, about.more ? this.high : this.low] : null;
    this.legend.replaceChildren();
    if (ends) this.legend.append(
      element("span", `worse ${short(ends[0])}`), strip, element("span", `${short(ends[1])} ${about.unit} better`));
    this.legend.append(element("span", `✕ not good: ${bad} of ${this.cells.length} cells`));
    this.legend.append(element("span", {
      nodes: "column: the first node of a place; row: the second",
      rails: "each node's own rail with its best partner; the pairs are in node × node",
      leaves: "the worst node of each leaf on that rail, with its best partner",
    }[this.choice.by]));
    this.canvas.setAttribute("aria-label",
      `${this.choice.title}: ${this.cells.length} cells, ${bad} not good. Arrow keys move, Enter lists the numbers.`);
  }

  draw() {
    if (!this.choice) return;
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft");
    this.wide = this.box.clientWidth;
    let width = Math.min(this.wide, 1100);
    if (!width) return;
    const name = (axis, at) => (this.names[axis] ? this.names[axis][at] : this.data.rails.length > 1 ? `rail ${at}` : "all");
    const longest = Math.max(...this.lines.map((at) => name(1, at).length), 4);
    this.left = Math.min(7 * longest + 10, 130);
    this.top = 20;
    const room = width - this.left - 4;
    if (this.choice.by === "nodes") {
      this.size = this.tall = Math.min(room / this.columns.length, 34);
      this.perBand = this.columns.length;
    } else {
      this.size = Math.min(Math.max(room / this.columns.length, LEAST_WIDTH), 40);
      this.tall = Math.min(Math.max(this.size, 9), 26);
      this.perBand = Math.max(Math.floor(room / this.size), 1);
    }
    const broad = Math.max(...this.columns.map((at) => Math.min(name(0, at).length, 18))) * 7 + 6;
    // A small map has no empty half.
    width = Math.min(width, Math.ceil(this.left + this.size * (this.columns.length - 1) + Math.max(this.size, broad) + 4));
    this.band = this.top + this.tall * this.lines.length + 4;
    const bands = Math.ceil(this.columns.length / this.perBand);
    const height = Math.max(this.band * bands, 60);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    const w = Math.max(this.size, 1), h = Math.max(this.tall, 1), gap = Math.min(w, h) > 6 ? 1 : 0;
    for (const cell of this.painted) {
      const [x, y] = this.corner(cell);
      const isBad = cell.status >= this.bad;
      if (cell.value !== null && this.choice.about) {
        pen.fillStyle = colour(this.share(cell.value));
        pen.fillRect(x, y, w - gap, h - gap);
      } else if (!isBad) {
        pen.strokeStyle = soft;
        pen.setLineDash([2, 2]);
        pen.strokeRect(x + 0.5, y + 0.5, Math.max(w - 2, 1), Math.max(h - 2, 1));
        pen.setLineDash([]);
      }
      if (isBad && Math.min(w, h) >= 7) this.cross(pen, x, y, w - gap, h - gap);
      else if (isBad) this.spot(pen, x + w / 2, y + h / 2);
    }
    pen.fillStyle = ink;
    const every = (size) => Math.max(1, Math.ceil(14 / size));
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let band = 0; band < bands; band++)
      this.lines.forEach((at, line) => {
        if (line % every(this.tall) === 0)
          pen.fillText(name(1, at), this.left - 4, band * this.band + this.top + (line + 0.5) * this.tall, this.left - 8);
      });
    pen.textAlign = "left";
    const step = Math.max(1, Math.ceil(broad / this.size));
    this.columns.forEach((at, column) => {
      const [x, y] = this.corner({ column, line: 0 });
      if ((column % this.perBand) % step === 0 && x + broad < width + 12)
        pen.fillText(name(0, at), x, y - 10, broad + 20);
    });
    if (this.cursor && document.activeElement === this.canvas) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      const [x, y] = this.corner(this.cursor);
      pen.strokeRect(x - 1, y - 1, w + 1, h + 1);
    }
  }

  // Many nodes go on in another band below.
  corner({ column, line }) {
    const band = Math.floor(column / this.perBand);
    return [
      this.left + (column - band * this.perBand) * this.size,
      band * this.band + this.top + line * this.tall,
    ];
  }

  spot(pen, x, y) {
    for (const [fill, size] of [["#fff", 7], [WRONG, 5]]) {
      pen.fillStyle = fill;
      pen.fillRect(x - size / 2, y - size / 2, size, size);
    }
  }

  cross(pen, x, y, w, h) {
    const m = Math.min(w, h) / 2 - 2, cx = x + w / 2, cy = y + h / 2;
    for (const [stroke, line] of [["#fff", 4], [WRONG, 2]]) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.beginPath();
      pen.moveTo(cx - m, cy - m);
      pen.lineTo(cx + m, cy + m);
      pen.moveTo(cx - m, cy + m);
      pen.lineTo(cx + m, cy - m);
      pen.stroke();
    }
    pen.lineWidth = 1;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const band = Math.floor((event.clientY - box.top) / this.band);
    const column = Math.floor((event.clientX - box.left - this.left) / this.size) + band * this.perBand;
    const line = Math.floor((event.clientY - box.top - band * this.band - this.top) / this.tall);
    this.under = undefined;
    // Where cells are smaller than a finger, the nearest one is meant.
    const reach = Math.ceil(4 / this.size);
    for (let far = 0; far <= reach && !this.under; far++)
      for (let dx = -far; dx <= far && !this.under; dx++)
        for (let dy = -far; dy <= far && !this.under; dy++)
          if (column + dx >= 0 && column + dx < this.columns.length)
            this.under = this.at.get((line + dy) * this.step + column + dx);
    this.say(this.under);
  }

  say(cell) {
    if (!cell) return;
    const unit = this.choice.about?.unit ?? "";
    const value = cell.value === null ? "no number" : `${short(cell.value)} ${unit}`;
    const several = cell.count > 1 ? `, the ${this.choice.by === "rails" ? "best" : "worst"} of ${cell.count}` : "";
    this.read.textContent = `${this.data.places[cell.place]}: ${value}, ${this.data.statuses[cell.status]}${several}`;
  }

  key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.enter(this.cursor);
    } else if (step && this.cells.length) {
      event.preventDefault();
      const here = this.cells.indexOf(this.cursor ?? this.cells[0]);
      const [dl, dc] = step;
      const there = dl
        ? this.cells.filter((c) => (c.line - this.cursor.line) * dl > 0)
            .sort((a, b) => dl * (a.line - b.line) || Math.abs(a.column - this.cursor.column) - Math.abs(b.column - this.cursor.column))[0]
        : this.cells[here + dc];
      this.cursor = there ?? this.cursor;
      this.say(this.cursor);
      this.draw();
    }
  }

  enter(cell) {
    if (!cell) return;
    if (this.choice.by === "leaves") {
      this.only = cell.x;
      this.show();
      return;
    }
    const nodes = this.choice.by === "nodes" ? [cell.x, cell.y] : [cell.x];
    this.drill(`${nodes.map((node) => `"${this.data.nodes[node]}"`).join(" ")} ${this.data.checks[this.check]}`);
  }
}
