import { isObject, isRecord } from '@x/internal'

/** One step of a path: the name of a field, or the index of an item. */
export type PathStep = string | number

/** Limit of an index. A larger one would create a huge empty list. */
const MAX_INDEX = 9999

const STEP = /\.([^.[\]'"*\s]+)|\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]/y

/**
 * Parses a JSON path of the root, fields (`.name`, `['name']`) and items (`[0]`). Returns undefined for other
 * forms (`[*]`, filters, slices, unions, `..`).
 */
export function jsonPathFrom(text: string): readonly PathStep[] | undefined {
  if (!text.startsWith('$')) return undefined
  const steps: PathStep[] = []
  const step = new RegExp(STEP)
  step.lastIndex = 1
  while (step.lastIndex < text.length) {
    const match = step.exec(text)
    if (match === null) return undefined
    const [, name, index, quoted] = match
    if (index === undefined) {
      steps.push(name ?? quoted?.slice(1, -1).replaceAll(/\\(.)/g, '$1') ?? '')
    } else if (Number(index) <= MAX_INDEX) steps.push(Number(index))
    else return undefined
  }
  return steps
}

/** Returns the value at a path, or undefined (which JSON does not have). */
export function valueAt(value: unknown, path: readonly PathStep[]): unknown {
  const [step, ...rest] = path
  if (step === undefined) return value
  if (typeof step === 'number') {
    return Array.isArray(value) ? valueAt(value[step], rest) : undefined
  }
  return isRecord(value) ? valueAt(fieldOf(value, step), rest) : undefined
}

/** Reads own fields only, so that `constructor` is undefined unless it was given. */
export function fieldOf(value: unknown, name: string): unknown {
  return isObject(value) ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined
}

/** Returns a copy with one field set, or removed if `value` is undefined. */
export function withField(
  object: Readonly<Record<string, unknown>>,
  name: string,
  value: unknown,
): Record<string, unknown> {
  const fields = new Map(Object.entries(object))
  if (value === undefined) fields.delete(name)
  else fields.set(name, value)
  return Object.fromEntries(fields) // an assignment to `__proto__` would not create a field
}

/**
 * Returns a copy of a value with one place set, or removed if `value` is undefined. Missing levels are created.
 */
export function withValueAt(target: unknown, path: readonly PathStep[], value: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return structuredClone(value)
  if (typeof step === 'string') {
    const object = isRecord(target) ? target : {}
    const old = fieldOf(object, step)
    if (value === undefined && old === undefined && rest.length > 0) return target
    return withField(object, step, withValueAt(old, rest, value))
  }
  const list: readonly unknown[] = Array.isArray(target) ? target : []
  if (value === undefined && step >= list.length) return target
  const length = Math.max(list.length, step + 1)
  const longer = Array.from({ length }, (_, at) => list[at] ?? null)
  return longer.with(step, withValueAt(list[step], rest, value) ?? null)
}
