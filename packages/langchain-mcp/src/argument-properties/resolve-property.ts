import { isRecord } from '@x/internal'
import type { McpToolOrigin } from '../tool-origin.ts'
import { invalidArgument, type PlacedProperty, type TextToken } from './argument-property.ts'
import { fieldOf, firstAt, jsonPathFrom, type PathStep } from './json-path.ts'

/** In place of a value that nobody may see. */
export const HIDDEN = '<hidden>'

/** A resource of the agent that a text may name. */
export interface NamedResource {
  /** As in `$resourceType`. */
  readonly type: string
  readonly name: string
}

export interface ResolveContext {
  /** The agent's input. */
  readonly input: unknown
  readonly origin: McpToolOrigin
  readonly resources: readonly NamedResource[]
}

/** What a property comes to in one run. */
export interface FixedArgument {
  readonly path: string
  readonly steps: readonly PathStep[]
  /** `undefined`: there is no value, and the argument is left out. */
  readonly value: unknown
  /** The same for eyes: sensitive values are `<hidden>`. */
  readonly shown: unknown
  readonly isSensitive: boolean
}

/**
 * The value of a property, by the agent's input.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for an `argumentPath` that cannot be read
 */
export function resolveProperty(placed: PlacedProperty, context: ResolveContext): FixedArgument {
  const { path, steps, property } = placed
  const isSensitive = 'isSensitive' in property && property.isSensitive
  if (property.variant === 'arrayBuilder') return { ...builtList(placed, context), path, steps }
  const value = valueOf(placed, context)
  const shown = isSensitive && value !== undefined ? HIDDEN : value
  return { path, steps, value, shown, isSensitive }
}

/** Whether the value is the same in every run. */
export function isConstant({ property, items }: PlacedProperty): boolean {
  switch (property.variant) {
    case 'static':
      return true
    case 'argument':
      return false
    case 'textBuilder':
      return !property.tokens.some((token) => token.type === 'variable' && isOfInput(token))
    case 'arrayBuilder':
      return items.every(isConstant)
  }
}

function builtList(
  { items }: PlacedProperty,
  context: ResolveContext,
): Pick<FixedArgument, 'value' | 'shown' | 'isSensitive'> {
  const value: unknown[] = []
  const shown: unknown[] = []
  for (const item of items) {
    const index = item.steps.at(-1)
    if (index?.kind !== 'item') continue
    while (value.length <= index.index) {
      value.push(null)
      shown.push(null)
    }
    const fixed = resolveProperty(item, context)
    value[index.index] = fixed.value ?? null
    shown[index.index] = fixed.shown ?? null
  }
  return { value, shown, isSensitive: false }
}

function valueOf({ property, path }: PlacedProperty, context: ResolveContext): unknown {
  switch (property.variant) {
    case 'static':
      return property.value
    case 'textBuilder':
      return property.tokens.map((token) => textOf(token, context)).join('')
    case 'argument': {
      const steps = jsonPathFrom(property.argumentPath)
      if (steps === undefined) {
        const reason = `"${property.argumentPath}" is no path into the agent's input`
        throw invalidArgument(context.origin, { path, reason, category: 'system' })
      }
      return firstAt(context.input, steps)
    }
    case 'arrayBuilder':
      return undefined
  }
}

function isOfInput({ rawString }: TextToken): boolean {
  return /^\s*input(?:\.|\s*$)/i.test(rawString)
}

function textOf({ type, rawString }: TextToken, { input, resources }: ResolveContext): string {
  if (type !== 'variable') return rawString
  const [root = '', ...names] = rawString.trim().split('.')
  const kind = root.toLowerCase()
  if (kind === 'output' && names.length > 0) return names.join('.')
  if (kind === 'input') {
    const value = names.reduce<unknown>(
      (inner, name) =>
        typeof inner === 'object' && inner !== null ? fieldOf(inner, name) : undefined,
      input,
    )
    return value === undefined ? rawString : asText(value)
  }
  const types = RESOURCE_TYPES.get(kind)
  if (types === undefined || names.length === 0) return rawString
  const wanted = names.join('.').toLowerCase()
  const found = resources.find(
    (resource) =>
      types.includes(resource.type.toLowerCase()) && resource.name.toLowerCase() === wanted,
  )
  return found?.name ?? rawString
}

/** What a text calls them, and their types in an agent definition. */
const RESOURCE_TYPES: ReadonlyMap<string, readonly string[]> = new Map([
  ['tools', ['tool', 'mcp']],
  ['escalations', ['escalation']],
  ['contexts', ['context']],
])

function asText(value: unknown): string {
  const isStructure = isRecord(value) || Array.isArray(value) || typeof value === 'boolean'
  return isStructure ? JSON.stringify(value) : String(value)
}
