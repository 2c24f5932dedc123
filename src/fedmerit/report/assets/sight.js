// Charts of a run are drawn when they come into view: drawing all of them at once is most of what
// opening a large run would cost. Until then a chart keeps its place, or what it showed before.
const REACH = 400; // pixels below and above the window that count as view
const waiting = new Map();

function drawWaiting(box) {
  const drawing = waiting.get(box);
  watcher.unobserve(box);
  waiting.delete(box);
  drawing();
}
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting && waiting.has(target)) drawWaiting(target);
}, { rootMargin: `${REACH}px` });

function drawOnSight([id, drawing]) {
  const box = document.getElementById(id), { top, bottom, width } = box.getBoundingClientRect();
  waiting.set(box, drawing);
  // A figure that is hidden has nothing to show so far; its chart knows whether that has changed.
  if (!width || (top < innerHeight + REACH && bottom > -REACH)) drawWaiting(box);
  else watcher.observe(box);
}
// For paper, and before the page goes to a place whose distance depends on what lies between.
const drawAll = () => { for (const box of [...waiting.keys()]) drawWaiting(box); };
addEventListener("beforeprint", drawAll);
