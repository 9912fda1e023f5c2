import { isRecord } from '@x/internal'
import { McpToolError } from '../base/errors.ts'
import type { McpToolOrigin } from '../base/tool-source.ts'
import {
  fieldOf,
  firstAt,
  invalidArgument,
  jsonPathFrom,
  type PathStep,
  type PlacedProperty,
  type TextToken,
} from './argument-property.ts'

/** Replaces a sensitive value. */
const HIDDEN = '<hidden>'

/** A resource of the agent that a text can name. */
export interface NamedResource {
  /** Value of `$resourceType`. */
  readonly type: string
  readonly name: string
}

interface ResolveContext {
  /** Input of the agent. */
  readonly input: unknown
  readonly origin: McpToolOrigin
  readonly resources: readonly NamedResource[]
}

/** The value of a property in one run. */
export interface FixedArgument {
  readonly path: string
  readonly steps: readonly PathStep[]
  /** Undefined without a value; the argument is then left out. */
  readonly value: unknown
  /** The same for people and logs: sensitive values are `<hidden>`. */
  readonly shown: unknown
  readonly isSensitive: boolean
}

/**
 * Returns the value of a property for the agent's input.
 *
 * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for an `argumentPath` that cannot be parsed
 */
export function resolveProperty(placed: PlacedProperty, context: ResolveContext): FixedArgument {
  const { path, steps, property } = placed
  const isSensitive = 'isSensitive' in property && property.isSensitive
  if (property.variant === 'arrayBuilder') return { ...builtList(placed, context), path, steps }
  const value = valueOf(placed, context)
  const shown = isSensitive && value !== undefined ? HIDDEN : value
  return { path, steps, value, shown, isSensitive }
}

/** Returns true if the value is the same in every run. */
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
        const reason = `"${property.argumentPath}" is not a JSON path into the agent's input`
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

/** Names of resource kinds in texts, and their types in an agent definition. */
const RESOURCE_TYPES: ReadonlyMap<string, readonly string[]> = new Map([
  ['tools', ['tool', 'mcp']],
  ['escalations', ['escalation']],
  ['contexts', ['context']],
])

function asText(value: unknown): string {
  const isStructure = isRecord(value) || Array.isArray(value) || typeof value === 'boolean'
  return isStructure ? JSON.stringify(value) : String(value)
}

/**
 * Returns a copy of the arguments with one place set, or removed if `value` is undefined. Missing levels are
 * created; `[*]` sets every item, and creates one in an empty list.
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

/** Uses entries, because an assignment to `__proto__` would not create a field. */
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

/** Shorter texts occur by chance, and hiding them would garble other texts. */
const MIN_LENGTH = 4

/** Returns the sensitive texts of a value, longest first, so that no part of a text remains. */
export function secretsIn(value: unknown): readonly string[] {
  return [...new Set(textsIn(value))]
    .filter((text) => text.length >= MIN_LENGTH)
    .toSorted((a, b) => b.length - a.length)
}

/** Returns a copy of a value with these texts replaced by `<hidden>`. */
export function withoutSecrets<T>(value: T, secrets: readonly string[]): T
export function withoutSecrets(value: unknown, secrets: readonly string[]): unknown {
  if (secrets.length === 0) return value
  if (typeof value === 'string') {
    return secrets.reduce((text, secret) => text.replaceAll(secret, HIDDEN), value)
  }
  if (Array.isArray(value)) return value.map((item: unknown) => withoutSecrets(item, secrets))
  if (!isRecord(value)) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, withoutSecrets(inner, secrets)]),
  )
}

/** Returns the error without these texts. A cause that contains one is left out. */
export function withoutSecretsInError(
  failure: McpToolError,
  secrets: readonly string[],
): McpToolError {
  if (secrets.length === 0 || !containsSecret(failure, secrets)) return failure
  const { code, message, category, outcome, artifact, cause } = failure
  return new McpToolError(code, withoutSecrets(message, secrets), {
    server: { slug: failure.serverSlug },
    toolName: failure.toolName,
    category,
    outcome,
    artifact: withoutSecrets(artifact, secrets),
    ...(!containsSecret(cause, secrets) && { cause }),
  })
}

/** Returns true if an error or one of its causes contains one of these texts. */
function containsSecret(error: unknown, secrets: readonly string[]): boolean {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 10; depth++) {
    const { message, stack = '' } = cause
    if (secrets.some((secret) => message.includes(secret) || stack.includes(secret))) return true
    cause = cause.cause
  }
  return false
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value === 'number' || typeof value === 'bigint') return [String(value)]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}
