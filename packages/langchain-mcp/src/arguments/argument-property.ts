import * as z from 'zod'
import { isObject, isRecord } from '@x/internal'
import { McpToolError, type McpToolErrorCategory } from '../base/errors.ts'
import { camelCased } from '../base/options.ts'
import { serverTitle, type McpToolOrigin } from '../base/tool-source.ts'
import type { KnownArgument } from './fixed-in-schema.ts'
import { EVERY_ITEM, fieldOf, firstAt, isAtOrBelow, jsonPathFrom } from './json-path.ts'
import type { PathStep } from './json-path.ts'
import { HIDDEN, secretsIn } from './secrets.ts'

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

const tokenSchema = z.preprocess(
  (value) => withKnownCase(camelCased(['rawString'])(value), 'type'),
  z.object({ type: z.enum(['simpleText', 'expression', 'variable']), rawString: z.string() }),
)

const propertySchema: z.ZodType<ArgumentProperty> = z.preprocess(
  (value) => withKnownCase(camelCased(['isSensitive', 'argumentPath'])(value), 'variant'),
  z.discriminatedUnion('variant', [
    z.object({ variant: z.literal('static'), value: z.unknown(), isSensitive: flag }),
    z.object({ variant: z.literal('argument'), argumentPath: z.string(), isSensitive: flag }),
    z.object({
      variant: z.literal('textBuilder'),
      tokens: z.array(tokenSchema),
      isSensitive: flag,
    }),
    z.object({ variant: z.literal('arrayBuilder') }),
  ]),
)

const NAMES = 'static argument textBuilder arrayBuilder simpleText expression variable'.split(' ')

/** Matches variants and token types in any case. */
function withKnownCase(value: unknown, key: string): unknown {
  if (!isRecord(value)) return value
  const given = String(value[key]).toLowerCase()
  return { ...value, [key]: NAMES.find((name) => name.toLowerCase() === given) ?? value[key] }
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
    const steps = jsonPathFrom(path) ?? []
    if (steps.length === 0) throw invalidArgument({ ...origin, path }, 'the path cannot be read')
    const { data: property } = propertySchema.safeParse(value)
    if (property !== undefined) return { path, steps, property, items: [] }
    throw invalidArgument({ ...origin, path }, 'it does not have the form of an argument property')
  })
  const below = ({ steps }: PlacedProperty): PlacedProperty[] =>
    all.filter((one) => one.steps.length > steps.length && isAtOrBelow(one.steps, steps))
  const withItems = (placed: PlacedProperty): PlacedProperty => {
    if (placed.property.variant !== 'arrayBuilder') return placed
    const items = below(placed).filter(
      ({ steps }) => steps.length === placed.steps.length + 1 && typeof steps.at(-1) === 'number',
    )
    return { ...placed, items: items.map(withItems) }
  }
  const inner = new Set(all.flatMap(below))
  const isForAll = ({ steps }: PlacedProperty): boolean => steps.includes(EVERY_ITEM)
  return all
    .filter((placed) => !inner.has(placed))
    .map(withItems)
    .toSorted((a, b) => Number(isForAll(b)) - Number(isForAll(a))) // `[*]` before `[0]`
}

/** Returns the error for an argument property that cannot be used. */
export function invalidArgument(
  { server, toolName, path }: McpToolOrigin & { readonly path: string },
  reason: string,
  category: McpToolErrorCategory = 'user',
): McpToolError {
  return new McpToolError(
    'INVALID_STATIC_ARGUMENT',
    `MCP tool "${toolName}" of server "${serverTitle(server)}" cannot be called with its argument properties: "${path}": ${reason}. Correct "argumentProperties" of this tool.`,
    { server, toolName, category, outcome: 'not-executed' },
  )
}

/** A resource of the agent that a text can name. */
export interface NamedResource {
  /** Value of `$resourceType`. */
  readonly type: string
  readonly name: string
}

export interface ResolveContext {
  /** Input of the agent. */
  readonly input: unknown
  readonly origin: McpToolOrigin
  readonly resources: readonly NamedResource[]
}

/** The value of a property in one run. */
interface FixedArgument {
  /** Undefined without a value; the argument is then left out. */
  readonly value: unknown
  /** The same for people and logs: sensitive values are `<hidden>`. */
  readonly redacted: unknown
  /** The value that the model sees. */
  readonly known: KnownArgument
  /** Sensitive texts. */
  readonly secrets: readonly string[]
}

/**
 * Returns the value of a property for the agent's input.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for an `argumentPath` that cannot be parsed
 */
export function resolveProperty(placed: PlacedProperty, context: ResolveContext): FixedArgument {
  const { property, items } = placed
  if (property.variant === 'arrayBuilder') return builtList(items, context)
  const value = valueOf(property, placed.path, context)
  if (value === undefined) return { value, redacted: value, known: 'absent', secrets: [] }
  return property.isSensitive
    ? { value, redacted: HIDDEN, known: 'secret', secrets: secretsIn(value) }
    : { value, redacted: value, known: { shown: value }, secrets: [] }
}

/** Returns true if the value is the same in every run. */
export function isConstant({ property, items }: PlacedProperty): boolean {
  if (property.variant === 'arrayBuilder') return items.every(isConstant)
  return property.variant === 'textBuilder'
    ? !property.tokens.some((token) => token.type === 'variable' && isOfInput(token))
    : property.variant === 'static'
}

function builtList(items: readonly PlacedProperty[], context: ResolveContext): FixedArgument {
  const value: unknown[] = []
  const redacted: unknown[] = []
  const secrets: string[] = []
  for (const item of items) {
    const index = Number(item.steps.at(-1))
    const fixed = resolveProperty(item, context)
    value[index] = fixed.value
    redacted[index] = fixed.redacted
    secrets.push(...fixed.secrets)
  }
  const list = Array.from(redacted, (one) => one ?? null)
  return {
    value: Array.from(value, (one) => one ?? null),
    redacted: list,
    known: { shown: list },
    secrets,
  }
}

function valueOf(
  property: Exclude<ArgumentProperty, { variant: 'arrayBuilder' }>,
  path: string,
  context: ResolveContext,
): unknown {
  if (property.variant === 'static') return property.value
  if (property.variant === 'textBuilder') {
    return property.tokens.map((token) => textOf(token, context)).join('')
  }
  const steps = jsonPathFrom(property.argumentPath)
  if (steps !== undefined) return firstAt(context.input, steps)
  const reason = `"${property.argumentPath}" is not a JSON path into the agent's input`
  throw invalidArgument({ ...context.origin, path }, reason, 'system')
}

function isOfInput({ rawString }: TextToken): boolean {
  return /^\s*input(?:\.|\s*$)/i.test(rawString)
}

/** Names of resource kinds in texts, and their types in an agent definition. */
const RESOURCE_TYPES: ReadonlyMap<string, readonly string[]> = new Map([
  ['tools', ['tool', 'mcp']],
  ['escalations', ['escalation']],
  ['contexts', ['context']],
])

function textOf({ type, rawString }: TextToken, { input, resources }: ResolveContext): string {
  if (type !== 'variable') return rawString
  const [root = '', ...names] = rawString.trim().split('.')
  const kind = root.toLowerCase()
  if (kind === 'output' && names.length > 0) return names.join('.')
  if (kind === 'input') {
    const value = names.reduce(fieldOf, input)
    return value === undefined ? rawString : asText(value)
  }
  const types = RESOURCE_TYPES.get(kind) ?? []
  const wanted = names.join('.').toLowerCase()
  const found = resources.find(
    (resource) =>
      types.includes(resource.type.toLowerCase()) && resource.name.toLowerCase() === wanted,
  )
  return found?.name ?? rawString
}

function asText(value: unknown): string {
  return isObject(value) ? JSON.stringify(value) : String(value)
}
