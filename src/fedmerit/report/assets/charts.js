// What all charts share. Texts from clients reach Plotly through `label` only: Plotly reads a small
// part of HTML in texts, and a name is not HTML.
const LONGEST = 28;
const narrow = () => innerWidth < 640;

function label(text, longest = LONGEST) {
  const visible = text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu, "\uFFFD");
  const points = [...visible];
  const short = points.length > longest ? points.slice(0, longest - 1).join("") + "…" : visible;
  return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;") || "(empty)";
}

function axis(title, extra) {
  return {
    title: { text: title, standoff: 8, font: { size: 12, color: colour("muted") } },
    gridcolor: colour("line"), zerolinecolor: colour("faint"), linecolor: colour("line"),
    tickfont: { size: 11, color: colour("muted") }, automargin: true, fixedrange: narrow(), ...extra,
  };
}

function layout(extra) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    margin: { l: narrow() ? 44 : 56, r: 12, t: 12, b: 44 },
    hovermode: "closest", hoverdistance: 24,
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("faint"), font: { color: colour("ink") }, align: "left" },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    dragmode: narrow() ? false : "zoom", ...extra,
  };
}

const config = {
  displaylogo: false, responsive: true, doubleClick: "reset",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
  toImageButtonOptions: { format: "svg", filename: "fedmerit" },
};

// Draws, and tells a screen reader in one sentence what is drawn.
async function draw(id, spoken, traces, frame) {
  const element = document.getElementById(id);
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", spoken);
  await Plotly.react(element, traces, layout(frame), config);
  return element;
}

function nothing(id, text) {
  const element = document.getElementById(id);
  element.replaceChildren(document.createTextNode(text));
  element.classList.add("nothing");
  const caption = element.parentElement.querySelector("figcaption");
  if (caption) caption.hidden = true;
}

function quantile(values, share) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const place = share * (sorted.length - 1), low = Math.floor(place);
  return sorted[low] + (sorted[Math.ceil(place)] - sorted[low]) * (place - low);
}
const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
const digits = (value, count = 4) => (value === null || value === undefined ? "" : value.toFixed(count));
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const amount = (value) => value.toLocaleString("en");
