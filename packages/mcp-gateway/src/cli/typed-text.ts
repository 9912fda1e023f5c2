import type { ConfigKind } from './config-shape.ts'

/** What a text from a flag, a variable or an expansion means at a place. What does not fit stays text, and is refused there. */
export function valueFromText(text: string, kind: ConfigKind): unknown {
  switch (kind) {
    case 'number':
      return /^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : text
    case 'boolean':
      return BOOLEANS.get(text.trim().toLowerCase()) ?? text
    case 'texts':
      return text
        .split(',')
        .map((each) => each.trim())
        .filter((each) => each !== '')
    case 'text':
    case 'other':
      return text
  }
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
])
