import { isRecord } from '@x/internal'
import * as z from 'zod'
import { camelCased } from '../agent/camel-case-keys.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import { isAtOrBelow, jsonPathFrom, type PathStep } from './json-path.ts'

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
