/** A time for people, in its largest whole unit: `3 min`. */
export function ageText(ms: number): string {
  const [unit, size] = UNITS.find(([, unitMs]) => ms >= unitMs) ?? ['s', 1000]
  return `${Math.floor(Math.max(0, ms) / size)} ${unit}`
}

/** A size for people: `812 B`, `1.5 KiB`. */
export function bytesText(bytes: number): string {
  return bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} KiB`
}

/** Milliseconds from `90s`, `15m`, `12h` or `30d`; `undefined` for anything else, and for no time at all. */
export function durationMsFrom(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const ms = Number(count) * (UNIT_MS.get(unit ?? '') ?? Number.NaN)
  return ms > 0 ? ms : undefined
}

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
])
const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]
