/** One step of a path: into a field, into an item, or into every item. */
export type PathStep =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'item'; readonly index: number }
  | { readonly kind: 'items' }

/** No list of arguments is longer; an index beyond would only make a huge empty list. */
const MAX_INDEX = 9999

const STEP = /\.([^.[\]'"*\s]+)|\[(\d+)\]|\[(\*)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]/y

/**
 * Reads a JSON path: root, fields (`.name`, `['name']`), items (`[0]`), every item (`[*]`). Returns
 * undefined for anything else (filters, slices, unions, `..`).
 */
export function jsonPathFrom(text: string): readonly PathStep[] | undefined {
  if (!text.startsWith('$')) return undefined
  const steps: PathStep[] = []
  const step = new RegExp(STEP)
  step.lastIndex = 1
  while (step.lastIndex < text.length) {
    const match = step.exec(text)
    if (match === null) return undefined
    const [, name, index, all, quoted] = match
    if (name !== undefined) steps.push({ kind: 'field', name })
    else if (all !== undefined) steps.push({ kind: 'items' })
    else if (quoted !== undefined) steps.push({ kind: 'field', name: unquoted(quoted) })
    else if (Number(index) <= MAX_INDEX) steps.push({ kind: 'item', index: Number(index) })
    else return undefined
  }
  return steps
}

function unquoted(text: string): string {
  return text.slice(1, -1).replaceAll(/\\(.)/g, '$1')
}

/** Whether all that `path` names lies below `parent`, or is it. Compared step by step: `$.a` is no parent of `$.ab`. */
export function isAtOrBelow(path: readonly PathStep[], parent: readonly PathStep[]): boolean {
  return (
    path.length >= parent.length &&
    parent.every((step, index) => {
      const other = path[index]
      if (step.kind === 'items') return other?.kind === 'items' || other?.kind === 'item'
      if (step.kind === 'item') return other?.kind === 'item' && other.index === step.index
      return other?.kind === 'field' && other.name === step.name
    })
  )
}

/** The first value at a path; undefined if there is none (JSON has no undefined). */
export function firstAt(value: unknown, path: readonly PathStep[]): unknown {
  const [step, ...rest] = path
  if (step === undefined) return value
  if (typeof value !== 'object' || value === null) return undefined
  if (step.kind === 'field') {
    return Array.isArray(value) ? undefined : firstAt(fieldOf(value, step.name), rest)
  }
  if (!Array.isArray(value)) return undefined
  if (step.kind === 'item') return firstAt(value[step.index], rest)
  for (const item of value) {
    const found = firstAt(item, rest)
    if (found !== undefined) return found
  }
  return undefined
}

/** An own field, so that `constructor` is one only if it was given. */
export function fieldOf(value: object, name: string): unknown {
  return Object.getOwnPropertyDescriptor(value, name)?.value
}
