import * as z from 'zod'
import { isObject, isRecord } from '@x/internal'
import { McpToolError, type McpToolErrorCategory } from '../errors.ts'
import { camelCased } from '../options.ts'
import { serverTitle, type McpToolOrigin } from '../tool-source.ts'
import { fieldOf, jsonPathFrom, valueAt, type PathStep } from './json-path.ts'

/** A part of a built text. A `variable` is replaced by its value, other tokens stay as they are. */
interface TextToken {
  readonly type: 'simpleText' | 'expression' | 'variable'
  /** The text, or the variable: `input.user.name`, or a resource of the agent, such as `tools.Shop`. */
  readonly rawString: string
}

/**
 * How one argument gets its value if the model does not give it. `isSensitive` sends the value and hides it
 * everywhere else.
 */
type ArgumentProperty =
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

/** An argument property and its place. */
export interface PlacedProperty {
  /** The path as it was written. */
  readonly path: string
  readonly steps: readonly PathStep[]
  readonly property: ArgumentProperty
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
  ]),
)

const NAMES = 'static argument textBuilder simpleText expression variable'.split(' ')

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
  const all = Object.entries(argumentProperties).map(([path, value]) => {
    const placed = placedPropertyFrom(path, value)
    if (typeof placed === 'string') throw invalidArgument({ ...origin, path }, placed)
    return placed
  })
  const isBelow = ({ steps }: PlacedProperty, parent: PlacedProperty): boolean =>
    steps.length > parent.steps.length && parent.steps.every((step, at) => steps[at] === step)
  return all.filter((placed) => !all.some((other) => isBelow(placed, other)))
}

/** Parses one argument property, or returns why it cannot be used. */
export function placedPropertyFrom(path: string, value: unknown): PlacedProperty | string {
  const steps = jsonPathFrom(path) ?? []
  if (steps.length === 0) return isForAll(path) ? FOR_ALL : 'the path cannot be read'
  const { data: property } = propertySchema.safeParse(value)
  if (property === undefined) {
    const variant = isRecord(value) ? String(value['variant']).toLowerCase() : ''
    return variant === 'arraybuilder'
      ? 'the variant "arrayBuilder" is not supported. Fix the whole list with "static" or "argument"'
      : 'it does not have the form of an argument property'
  }
  return property.variant === 'argument' && isForAll(property.argumentPath)
    ? FOR_ALL
    : { path, steps, property }
}

const FOR_ALL = 'a path with [*] is not supported. Name an item by its index, or the whole list'

function isForAll(path: string): boolean {
  return path.includes('[*]') && jsonPathFrom(path) === undefined
}

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
  readonly input: unknown
  readonly origin: McpToolOrigin
  readonly resources: readonly NamedResource[]
}

/** Returns true if the value is the same in every run. */
export function isConstant({ property }: PlacedProperty): boolean {
  return property.variant === 'textBuilder'
    ? !property.tokens.some((token) => token.type === 'variable' && isOfInput(token))
    : property.variant === 'static'
}

/**
 * Returns the value of a property, or undefined without a value: the argument is then left out.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for an `argumentPath` that cannot be parsed
 */
export function valueOf({ property, path }: PlacedProperty, context: ResolveContext): unknown {
  if (property.variant === 'static') return property.value
  if (property.variant === 'textBuilder') {
    return property.tokens.map((token) => textOf(token, context)).join('')
  }
  const steps = jsonPathFrom(property.argumentPath)
  if (steps !== undefined) return valueAt(context.input, steps)
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
