// How a column's values are written: counts as counts, errors in powers of ten, the rest with their unit.
import * as format from "../common/format.js";

const counts = new Set(["count"]);

export const say = {
  value(value, column) {
    if (value === 0) return "0";
    if (counts.has(column.format)) return format.count(value);
    if (column.format === "integer" || (column.unit === "" && Number.isInteger(value))) return format.count(value, 12);
    if (column.format === "scientific") return format.scientific(value);
    return format.quantity(value, column.unit);
  },
  range(low, high, column, like) {
    if (counts.has(column.format)) return `${format.count(low)}–${format.count(high)}`;
    return format.interval(low, high, column.unit, like);
  },
};
