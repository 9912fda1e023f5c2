import { isRecord } from '@x/internal'
import { fieldOf, type PathStep } from './json-path.ts'

/**
 * A copy of the arguments with one place set, or taken away where `value` is undefined. What is missing on
 * the way is made; `[*]` sets every item, and makes one where there is none.
 */
export function withValueAt(target: unknown, steps: readonly PathStep[], value: unknown): unknown {
  const [step, ...rest] = steps
  if (step === undefined) return structuredClone(value)
  if (step.kind === 'field') {
    const object = isRecord(target) ? target : {}
    const old = fieldOf(object, step.name)
    if (value === undefined && (rest.length === 0 || old === undefined)) {
      return rest.length === 0 ? withoutField(object, step.name) : target
    }
    return withField(object, step.name, withValueAt(old, rest, value))
  }
  const list: readonly unknown[] = Array.isArray(target) ? target : []
  if (value === undefined && list.length === 0) return target
  if (step.kind === 'items') {
    const items = list.length > 0 ? list : [undefined]
    return items.map((item) => withValueAt(item, rest, value) ?? null)
  }
  if (value === undefined && step.index >= list.length) return target
  const longer = Array.from(
    { length: Math.max(list.length, step.index + 1) },
    (_, index) => list[index] ?? null,
  )
  return longer.with(step.index, withValueAt(list[step.index], rest, value) ?? null)
}

/** Through entries, not by assignment: `__proto__` is a name like others. */
function withField(object: object, name: string, value: unknown): Record<string, unknown> {
  const others = Object.entries(object)
  const known = others.some(([key]) => key === name)
  return Object.fromEntries(
    known
      ? others.map(([key, old]): [string, unknown] => [key, key === name ? value : old])
      : [...others, [name, value]],
  )
}

function withoutField(object: object, name: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name))
}
