import * as z from 'zod'
import { isRecord } from '@x/internal'
import { McpToolError } from '../base/errors.ts'
import { camelCased } from '../base/options.ts'
import { serverTitle, type McpToolOrigin } from '../base/tool-source.ts'

/**
 * A piece of a text that is put together when the tool is called: what it names (`variable`), else as it is.
 */
export interface TextToken {
  readonly type: 'simpleText' | 'expression' | 'variable'
  /** The text, or what is named: `input.user.name`, or a resource of the agent, as `tools.Shop`. */
  readonly rawString: string
}

/**
 * How one place of a tool's arguments gets its value, instead of from the model. `arrayBuilder`: a list of
 * what is configured for its items. `isSensitive`: sent, and hidden from all who look.
 */
export type ArgumentProperty =
  | {
      readonly variant: 'static'
      /** As given: any JSON. */
      readonly value: unknown
      readonly isSensitive: boolean
    }
  | {
      readonly variant: 'argument'
      /** Where the value is in the agent's input, by JSON path: `$.tenantId`. */
      readonly argumentPath: string
      readonly isSensitive: boolean
    }
  | {
      readonly variant: 'textBuilder'
      /** Put together without anything between. */
      readonly tokens: readonly TextToken[]
      readonly isSensitive: boolean
    }
  | { readonly variant: 'arrayBuilder' }

/** A property and the place that it is for. */
export interface PlacedProperty {
  /** As it was written. */
  readonly path: string
  readonly steps: readonly PathStep[]
  readonly property: ArgumentProperty
  /** For a list that is built: what is configured for its items. */
  readonly items: readonly PlacedProperty[]
}

const flag = z.preprocess((value) => value ?? false, z.boolean())

const propertySchema: z.ZodType<ArgumentProperty> = z.preprocess(
  (value) => withKnownCase(camelCased(['isSensitive', 'argumentPath'])(value), 'variant'),
  z.discriminatedUnion('variant', [
    z.object({ variant: z.literal('static'), value: z.unknown(), isSensitive: flag }),
    z.object({ variant: z.literal('argument'), argumentPath: z.string(), isSensitive: flag }),
    z.object({
      variant: z.literal('textBuilder'),
      tokens: z.array(
        z.preprocess(
          (value) => withKnownCase(camelCased(['rawString'])(value), 'type'),
          z.object({
            type: z.enum(['simpleText', 'expression', 'variable']),
            rawString: z.string(),
          }),
        ),
      ),
      isSensitive: flag,
    }),
    z.object({ variant: z.literal('arrayBuilder') }),
  ]),
)

const NAMES: ReadonlyMap<string, string> = new Map(
  ['static', 'argument', 'textBuilder', 'arrayBuilder', 'simpleText', 'expression', 'variable'].map(
    (name) => [name.toLowerCase(), name],
  ),
)

/** Variants and token types are matched in any case. */
function withKnownCase(value: unknown, key: string): unknown {
  if (!isRecord(value)) return value
  const name = value[key]
  if (typeof name !== 'string') return value
  return { ...value, [key]: NAMES.get(name.toLowerCase()) ?? name }
}

/**
 * Reads the `argumentProperties` of a tool. What lies below a place that is configured as a whole is left
 * out: the parent wins.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT`, which names the tool and the path, never a value
 */
export function placedPropertiesFrom(
  argumentProperties: Readonly<Record<string, unknown>>,
  origin: McpToolOrigin,
): readonly PlacedProperty[] {
  const all = Object.entries(argumentProperties).map(([path, value]): PlacedProperty => {
    const steps = jsonPathFrom(path)
    if (steps === undefined || steps.length === 0) {
      throw invalidArgument(origin, { path, reason: 'the path cannot be read' })
    }
    const parsed = propertySchema.safeParse(value)
    if (!parsed.success) {
      throw invalidArgument(origin, { path, reason: 'it is no argument property' })
    }
    return { path, steps, property: parsed.data, items: [] }
  })
  const withItems = (placed: PlacedProperty): PlacedProperty =>
    placed.property.variant === 'arrayBuilder'
      ? { ...placed, items: all.filter((other) => isItemOf(other, placed)).map(withItems) }
      : placed
  return all
    .filter((placed) => !all.some((other) => isBelow(placed, other)))
    .map(withItems)
    .toSorted((a, b) => Number(isForAll(b)) - Number(isForAll(a))) // "all items" before "this item"
}

function isBelow({ steps }: PlacedProperty, parent: PlacedProperty): boolean {
  return steps.length > parent.steps.length && isAtOrBelow(steps, parent.steps)
}

function isItemOf(item: PlacedProperty, list: PlacedProperty): boolean {
  return (
    item.steps.length === list.steps.length + 1 &&
    item.steps.at(-1)?.kind === 'item' &&
    isBelow(item, list)
  )
}

function isForAll({ steps }: PlacedProperty): boolean {
  return steps.some(({ kind }) => kind === 'items')
}

/** A value that was configured for a tool and cannot be used. */
export function invalidArgument(
  { server, toolName }: McpToolOrigin,
  {
    path,
    reason,
    category = 'user',
  }: {
    readonly path: string
    readonly reason: string
    readonly category?: 'user' | 'system'
  },
): McpToolError {
  return new McpToolError(
    'INVALID_STATIC_ARGUMENT',
    `MCP tool "${toolName}" of server "${serverTitle(server)}" cannot be called with its argument properties: "${path}": ${reason}. Correct "argumentProperties" of this tool.`,
    { server, toolName, category, outcome: 'not-executed' },
  )
}

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
