// From the coordinates of a stream to the points of a canvas, and back: fit, move, zoom.

const KM_A_DEGREE = 111.195; // of a great circle, on a sphere of 6,371 km
const UNITS = { km: 1, m: 0.001, miles: 1.609344 };

export function view(canvas) {
  let box = null; // [[least x, greatest x], [least y, greatest y]] of what is to be seen
  let stretch = 1; // how much longer a unit of y is drawn than one of x
  let zoom = 1, centre = [0, 0];
  let settings = { metric: "", unit: null };
  let swapped = false; // latitude comes first: north is up all the same

  const along = (point) => (swapped ? [point[1], point[0]] : point);

  function scale() {
    const width = canvas.clientWidth - 40, height = canvas.clientHeight - 40;
    const [[left, right], [low, high]] = box;
    return zoom * Math.min(width / (right - left || 1), height / ((high - low || 1) * stretch));
  }

  return {
    // `bounds` in the order of the columns `names`
    fit(bounds, names, given) {
      settings = given;
      swapped = /^lat/i.test(names[0] || "");
      box = swapped ? [bounds[1], bounds[0]] : bounds;
      const degrees = settings.metric === "haversine" || swapped || /^lon/i.test(names[0] || "");
      const middle = (box[1][0] + box[1][1]) / 2;
      stretch = degrees ? 1 / Math.max(0.1, Math.cos(middle * Math.PI / 180)) : 1;
      this.whole();
    },
    whole() { zoom = 1; if (box) centre = box.map(([low, high]) => (low + high) / 2); },
    // as close as shows all of these points
    close(points) {
      const both = [0, 1].map((axis) => points.map((point) => along(point)[axis]));
      centre = both.map((all) => (Math.min(...all) + Math.max(...all)) / 2);
      zoom = 1;
      const by = scale();
      const wide = both.map((all) => Math.max(...all) - Math.min(...all));
      zoom = Math.min(2000, 0.8 * Math.min(canvas.clientWidth / (wide[0] * by), canvas.clientHeight / (wide[1] * by * stretch)));
    },
    zoom(times) { zoom = Math.min(2000, Math.max(0.5, zoom * times)); },
    // by a part of what is seen, or by points of the screen
    move(right, up) {
      const by = 0.15 / zoom;
      centre = [centre[0] + right * by * (box[0][1] - box[0][0]), centre[1] + up * by * (box[1][1] - box[1][0])];
    },
    drag(x, y) { const by = scale(); centre = [centre[0] - x / by, centre[1] + y / by / stretch]; },
    forget() { box = null; },
    get ready() { return box !== null; },
    get box() { return box; },
    names: (given) => (swapped ? [given[1], given[0]] : given),
    at(point) {
      const [x, y] = along(point), by = scale();
      return [canvas.clientWidth / 2 + (x - centre[0]) * by, canvas.clientHeight / 2 - (y - centre[1]) * by * stretch];
    },
    // half widths on the screen of a length in the stream's distances around a point
    lengths(point, length) {
      const by = scale();
      if (settings.metric !== "haversine") return [length * by, length * by * stretch];
      const degrees = length * UNITS[settings.unit || "km"] / KM_A_DEGREE;
      const [, latitude] = along(point);
      return [degrees / Math.cos(latitude * Math.PI / 180) * by, degrees * by * stretch];
    },
  };
}
