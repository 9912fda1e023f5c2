import * as z from 'zod'
import { isRecord } from '@x/internal'
import { McpToolError } from '../base/errors.ts'
import { camelCased } from '../base/options.ts'
import { serverTitle, type McpToolOrigin } from '../base/tool-source.ts'

/** A part of a built text. A `variable` is replaced by its value, other tokens stay as they are. */
export interface TextToken {
  readonly type: 'simpleText' | 'expression' | 'variable'
  /** The text, or the variable: `input.user.name`, or a resource of the agent, such as `tools.Shop`. */
  readonly rawString: string
}

/**
 * How one argument gets its value if the model does not give it. `arrayBuilder` builds a list from the
 * properties of its items. `isSensitive` sends the value and hides it everywhere else.
 */
export type ArgumentProperty =
  | {
      readonly variant: 'static'
      /** Any JSON value. */
      readonly value: unknown
      readonly isSensitive: boolean
    }
  | {
      readonly variant: 'argument'
      /** JSON path of the value in the agent's input: `$.tenantId`. */
      readonly argumentPath: string
      readonly isSensitive: boolean
    }
  | {
      readonly variant: 'textBuilder'
      /** Joined without a separator. */
      readonly tokens: readonly TextToken[]
      readonly isSensitive: boolean
    }
  | { readonly variant: 'arrayBuilder' }

/** An argument property and its place. */
export interface PlacedProperty {
  /** The path as it was written. */
  readonly path: string
  readonly steps: readonly PathStep[]
  readonly property: ArgumentProperty
  /** The properties of the items, for a list that is built. */
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

/** Matches variants and token types in any case. */
function withKnownCase(value: unknown, key: string): unknown {
  if (!isRecord(value)) return value
  const name = value[key]
  if (typeof name !== 'string') return value
  return { ...value, [key]: NAMES.get(name.toLowerCase()) ?? name }
}

/**
 * Parses the `argumentProperties` of a tool. A property below another one is left out, because the parent
 * sets the whole value.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` with the tool and the path, without values
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
      throw invalidArgument(origin, {
        path,
        reason: 'it does not have the form of an argument property',
      })
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
    .toSorted((a, b) => Number(isForAll(b)) - Number(isForAll(a))) // `[*]` before `[0]`
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

/** Returns the error for an argument property that cannot be used. */
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

/** One step of a path: a field, an item, or every item. */
export type PathStep =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'item'; readonly index: number }
  | { readonly kind: 'items' }

/** Limit of an index. A larger one would create a huge empty list. */
const MAX_INDEX = 9999

const STEP = /\.([^.[\]'"*\s]+)|\[(\d+)\]|\[(\*)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]/y

/**
 * Parses a JSON path of the root, fields (`.name`, `['name']`), items (`[0]`) and every item (`[*]`).
 * Returns undefined for other forms (filters, slices, unions, `..`).
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

/** Returns true if `path` is `parent` or below it. Compares steps: `$.a` is not a parent of `$.ab`. */
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

/** Returns the first value at a path, or undefined (which JSON does not have). */
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

/** Reads own fields only, so that `constructor` is undefined unless it was given. */
export function fieldOf(value: object, name: string): unknown {
  return Object.getOwnPropertyDescriptor(value, name)?.value
}
