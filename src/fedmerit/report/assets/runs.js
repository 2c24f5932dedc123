// The runs that are there; two of them can be compared.
const page = JSON.parse(document.getElementById("data").textContent);
let runs = [], words = "";
const chosen = [];

function showRuns(data) {
  runs = data.runs;
  document.getElementById("subtitle").textContent = `${runs.length} runs in ${data.where}`;
  fillTable("runs-table", [
    { title: "Select", show: (one) => {
      const box = element("input", null, { type: "checkbox", "aria-label": `select ${one.title}` });
      box.checked = chosen.includes(one.id);
      box.disabled = !box.checked && chosen.length === 2;
      box.addEventListener("change", () => { if (box.checked) chosen.push(one.id); else chosen.splice(chosen.indexOf(one.id), 1); showRuns(data); });
      return box;
    } },
    { title: "Run", head: true, value: (one) => one.title, show: (one) => (one.problem ? document.createTextNode(one.title) : element("a", one.title, { href: `/run?id=${encodeURIComponent(one.id)}` })) },
    { title: "Rounds", number: true, value: (one) => one.rounds },
    { title: "Started", value: (one) => one.started },
    { title: "Recorded by", value: (one) => one.software },
    { title: "Signed", value: (one) => (one.signed ? "yes" : "no") },
    { title: "", value: (one) => one.problem },
  ], runs.filter((one) => one.title.toLowerCase().includes(words)));
  const two = chosen.length === 2, link = document.getElementById("compare");
  link.hidden = !two;
  document.getElementById("hint").hidden = two;
  if (two) link.href = `/compare?a=${encodeURIComponent(chosen[0])}&b=${encodeURIComponent(chosen[1])}`;
}

showTheme(currentTheme());
showRuns(page);
document.getElementById("search").addEventListener("input", (event) => { words = event.target.value.trim().toLowerCase(); showRuns({ ...page, runs }); });
follow(["/data/runs"], showRuns);
root.dataset.ready = "true";
