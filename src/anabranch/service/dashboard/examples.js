// Queries to start from, one of each kind, made from what the streams declare.

const NUMBERS = ["float", "int"];

function middle(settings) {
  const pairs = settings.bounds.length === 2 ? settings.bounds : [[0, 1], [0, 1]];
  return pairs.map(([low, high]) => +((low + high) / 2).toPrecision(6)).join(", ");
}

function reach(settings, part) {
  const [low, high] = settings.bounds.length ? settings.bounds[0] : [0, 1];
  if (settings.metric === "haversine") return { km: 25, m: 25000, miles: 15 }[settings.unit || "km"];
  return +((high - low) * part).toPrecision(2);
}

// [{title, name, query}, …]
export function examples(streams) {
  const found = [];
  const add = (stream, kind, name, query) => found.push({ title: `${kind} from ${stream}`, name: `${stream}-${name}`, query });
  for (const { name, columns, settings } of streams) {
    const position = settings.position.slice(0, 2);
    const value = columns.find((one) => NUMBERS.includes(one.type) && ![settings.time, settings.id, ...position].includes(one.name));
    const shown = [settings.object, ...position, value && value.name].filter((one) => one);
    const condition = value ? ` WHERE ${value.name} > 1` : "";
    if (shown.length) add(name, "select: the items that satisfy a condition", "select", `SELECT ${shown.join(", ")} FROM ${name}${condition}`);
    const measure = value ? `avg(${value.name}) AS mean, ` : "";
    add(name, "aggregate: numbers over windows", "mean", `SELECT ${measure}count(*) AS n FROM ${name} WINDOW ROWS 1000`);
    if (position.length < 2) continue;
    const by = `BY (${position.join(", ")})`;
    add(name, "nearest: the items closest to a point", "nearest", `SELECT NEAREST 5 TO (${middle(settings)}) ${by} FROM ${name} WINDOW ROWS 1000`);
    add(name, "clusters: where items are dense", "clusters", `SELECT CLUSTERS WITHIN ${reach({ ...settings, metric: "" }, 0.01)} MIN 10 ${by} FROM ${name} WINDOW ROWS 2000 STEP 1000`);
    if (!settings.object || !settings.time) continue;
    add(name, "moving: objects within a range", "range", `SELECT OBJECTS WITHIN ${reach(settings, 0.1)} OF (${middle(settings)}) FROM ${name}`);
    add(name, "moving: the nearest objects", "three", `SELECT NEAREST 3 OBJECTS TO (${middle(settings)}) FROM ${name}`);
  }
  return found;
}
