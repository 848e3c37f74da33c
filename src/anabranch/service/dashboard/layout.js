// Positions for the sites of a network: they push each other away, links pull. The same network gets the same picture.

const ROUNDS = 300;

export function layout(names, links, width, height, margin) {
  const size = names.length;
  const at = names.map((_, n) => [Math.cos(2 * Math.PI * n / size), Math.sin(2 * Math.PI * n / size) * 0.9]);
  const index = new Map(names.map((name, n) => [name, n]));
  const ideal = 1.6 / Math.sqrt(size);
  for (let round = 0; round < ROUNDS && size > 1; round += 1) {
    const push = at.map(() => [0, 0]);
    const pull = (one, other, force) => {
      const way = [0, 1].map((axis) => at[one][axis] - at[other][axis]);
      const distance = Math.max(0.01, Math.hypot(...way));
      const by = force(distance) / distance;
      for (const axis of [0, 1]) { push[one][axis] += way[axis] * by; push[other][axis] -= way[axis] * by; }
    };
    for (let one = 0; one < size; one += 1) for (let other = 0; other < one; other += 1) pull(one, other, (d) => ideal * ideal / d);
    for (const [one, other] of links) pull(index.get(one), index.get(other), (d) => -d * d / ideal);
    const most = 0.1 * (1 - round / ROUNDS);
    push.forEach((by, n) => {
      const length = Math.max(1e-9, Math.hypot(...by));
      for (const axis of [0, 1]) at[n][axis] += by[axis] / length * Math.min(most, length);
    });
  }
  const spread = [0, 1].map((axis) => [Math.min(...at.map((one) => one[axis])), Math.max(...at.map((one) => one[axis]))]);
  const fit = (value, [low, high], length) => (high - low < 1e-6 ? length / 2 : margin + (value - low) / (high - low) * (length - 2 * margin));
  return new Map(names.map((name, n) => [name, [fit(at[n][0], spread[0], width), fit(at[n][1], spread[1], height)]]));
}
