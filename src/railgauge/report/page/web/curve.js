"use strict";
// Curves over message sizes or percentiles, drawn by uPlot: median, worst place, reference, limit.

function drawCurve(figure, curve) {
  const style = getComputedStyle(document.documentElement);
  const tone = (name) => style.getPropertyValue(name).trim();
  const size = curve.by === "size";
  const xs = size ? curve.x : curve.x.map((_, at) => at);
  const number = (value) => (value === null || value === undefined ? "-" : `${Number(value.toPrecision(4))} ${curve.unit}`);
  const all = [...curve.median, ...curve.worst, ...curve.best].filter((value) => value > 0);
  const alone = curve.worst.every((value, at) => value === curve.best[at]);
  const logarithmic = Math.max(...all) / Math.min(...all) > 30;
  const lines = [
    { label: alone ? "measured" : "median", values: curve.median, stroke: tone("--mark"), width: 2.5, points: { show: true, size: 5 } },
    { label: "worst place", values: alone ? [] : curve.worst, stroke: tone("--reject"), width: 1.5, dash: [6, 4], points: { show: false } },
    { label: "best place", values: alone ? [] : curve.best, stroke: tone("--soft"), width: 1, points: { show: false } },
    { label: "accepted before", values: curve.accepted, stroke: tone("--accept"), width: 2, dash: [1, 4], points: { show: true, size: 7, width: 1.5, fill: tone("--raised") } },
    { label: "at least", values: curve.lowest, stroke: tone("--open"), width: 1.5, dash: [2, 3], points: { show: false } },
    { label: "at most", values: curve.highest, stroke: tone("--open"), width: 1.5, dash: [10, 3], points: { show: false } },
    { label: "limit", values: curve.limit, stroke: tone("--ink"), width: 1, dash: [12, 4, 2, 4], points: { show: false } },
  ].filter((line) => line.values.some((value) => value !== null));
  for (const line of lines)
    if (line.values.filter((value) => value !== null).length < 2) line.points = { show: true, size: 8, fill: line.stroke };
  const names = lines.map((line) => line.label);
  const band = (low, high, colour) => ({ series: [names.indexOf(high) + 1, names.indexOf(low) + 1], fill: `${tone(colour)}22` });
  const bands = alone ? [] : [band("worst place", "best place", "--mark")];
  if (names.includes("at least") && names.includes("at most")) bands.push(band("at least", "at most", "--open"));
  const axis = { stroke: tone("--ink"), grid: { stroke: tone("--line"), width: 1 }, ticks: { stroke: tone("--line") } };
  const labels = (_, splits) => splits.map((at) => {
    const near = xs.indexOf(at);
    return near < 0 ? "" : curve.labels[near];
  });
  const plot = figure.querySelector(".plot");
  const width = () => Math.max(Math.min(figure.clientWidth, 900), 200);
  plot.replaceChildren();
  return new uPlot({
    width: width(),
    height: 280,
    scales: {
      x: { time: false, distr: size ? 3 : 1, log: 2, range: size ? undefined : () => [-0.2, xs.length - 0.8] },
      y: { distr: logarithmic ? 3 : 1, range: logarithmic ? undefined : (_, low, high) => [0, high * 1.05] },
    },
    axes: [
      { ...axis, values: labels, filter: (_, splits) => splits, splits: () => thinned(xs, width(), curve.by === "campaign" ? 130 : 56) },
      { ...axis, size: 64, label: curve.unit, values: (_, splits) => splits.map((v) => (v === null ? "" : String(Number(v.toPrecision(3))))) },
    ],
    series: [
      { label: curve.by, value: (_, at) => (at === null ? "-" : curve.labels[xs.indexOf(at)] ?? "-") },
      ...lines.map(({ values, ...line }) => ({ ...line, spanGaps: true, value: (_, value) => number(value) })),
    ],
    bands,
    legend: { markers: { width: 0, fill: (_, at) => sample(lines[at - 1]) } },
    cursor: { drag: { x: false, y: false } },
  }, [xs, ...lines.map((line) => line.values)], plot);
}

// A line as it is drawn, for the legend: a reader that does not distinguish the colours sees the dashes.
function sample({ stroke, dash }) {
  if (!dash) return stroke;
  let from = 0;
  const stops = dash.map((long, at) => `${at % 2 ? "transparent" : stroke} ${from}px ${(from += long)}px`);
  return `repeating-linear-gradient(90deg, ${stops.join(", ")})`;
}

function thinned(xs, width, each) {
  const every = Math.ceil(xs.length / Math.max(Math.floor((width - 80) / each), 2));
  return xs.filter((_, at) => at % every === 0);
}
