// The small repairs of which those of messages are made: see `mcp-answers.ts`.
import { isRecord } from './is-record.ts'

export type Fields = Record<string, unknown>

/** Narrows the type. A value that was parsed from JSON belongs to the reader, so it may be changed. */
export function isObject(value: unknown): value is Fields {
  return isRecord(value)
}

/** Repairs a value, or returns undefined for one that counts as absent. Values that cannot be repaired are returned unchanged. */
export type Repair = (value: unknown) => unknown

/** Repairs of fields. Other fields stay as they are. */
export type Shape = Readonly<Record<string, Repair>>

/** Returns a table of names that others choose: `__proto__` and `constructor` are in none. */
export function named<T>(entries: Readonly<Record<string, T>>): ReadonlyMap<string, T> {
  return new Map(Object.entries(entries))
}

/** Repairs the fields of an object in place. `[]` is an empty object. */
export function fields(shape: Shape): Repair {
  return (given) => {
    const value = Array.isArray(given) && given.length === 0 ? {} : given
    if (!isObject(value)) return value ?? undefined
    for (const name in shape) {
      if (!(name in value)) continue
      const repaired = shape[name]?.(value[name])
      if (repaired === undefined) delete value[name]
      else value[name] = repaired
    }
    return value
  }
}

/** An object without which its owner is still complete: anything else than an object counts as absent. */
export function hint(shape: Shape): Repair {
  const repair = fields(shape)
  return (value) => {
    const repaired = repair(value)
    return isObject(repaired) ? repaired : undefined
  }
}

/** A list, also one that PHP has sent as an object with numbered keys. */
export function list(repair: Repair): Repair {
  return (value) => {
    const items = isObject(value) && isNumbered(value) ? Object.values(value) : value
    return Array.isArray(items) ? items.map((item) => repair(item) ?? item) : (value ?? undefined)
  }
}

function isNumbered(value: Fields): boolean {
  const names = Object.keys(value)
  return names.length > 0 && names.every((name, index) => name === String(index))
}

export const nullable: Repair = (value) => value ?? undefined
export const open: Repair = fields({})
/** Fields that only inform, and are dropped if their type is wrong. */
export const text: Repair = (value) => (typeof value === 'string' ? value : undefined)
export const number: Repair = (value) => {
  const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof read === 'number' && Number.isFinite(read) ? read : undefined
}
/** A hint of a server counts only as a boolean: a call may be repeated because of it. */
export const flag: Repair = (value) => (typeof value === 'boolean' ? value : undefined)
