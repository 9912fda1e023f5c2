import type { RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { isRecord } from '@x/internal'
import { currentRun, type CurrentRun } from '@x/mcp-client'
import type { ToolLog } from '../base/log.ts'
import { serverTitle, type JsonSchema, type McpToolOrigin } from '../base/tool-source.ts'
import type { ValidationError } from '../schema/schema-check.ts'
import {
  invalidArgument,
  placedPropertiesFrom,
  type PathStep,
  type PlacedProperty,
} from './argument-property.ts'
import { InvalidValueError, withFixedArgument, type KnownArgument } from './fixed-in-schema.ts'
import {
  isConstant,
  resolveProperty,
  secretsIn,
  withValueAt,
  type FixedArgument,
  type NamedResource,
} from './resolve-property.ts'

interface ArgumentPropertiesOptions {
  readonly origin: McpToolOrigin
  readonly log: ToolLog
  /** @default the state of the graph */
  readonly input?: InputResolver | undefined
  /** Resources that texts can name. @default [] */
  readonly resources?: readonly NamedResource[] | undefined
}

/** The complete arguments of one call. */
export interface MergedArguments {
  /** The arguments that are sent. */
  readonly args: unknown
  /** The arguments for callbacks, spans and approvals: sensitive values are `<hidden>`. */
  readonly shown: unknown
  /** Sensitive texts. */
  readonly secrets: readonly string[]
}

/**
 * The arguments of a tool that the agent definition sets instead of the model. A property for a place that
 * the schema does not have is skipped, in the shown schema and in the call, with one warning.
 */
export class ArgumentProperties {
  readonly #properties: readonly PlacedProperty[]
  readonly #options: ArgumentPropertiesOptions
  readonly #warned = new Set<string>()
  #shown: { readonly key: string; readonly of: JsonSchema; readonly schema: JsonSchema } | undefined

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for properties that cannot be parsed */
  constructor(
    argumentProperties: Readonly<Record<string, unknown>>,
    options: ArgumentPropertiesOptions,
  ) {
    this.#properties = placedPropertiesFrom(argumentProperties, options.origin)
    this.#options = options
  }

  get isEmpty(): boolean {
    return this.#properties.length === 0
  }

  /**
   * Returns the schema with these arguments fixed. Values from the agent's input are shown if a graph is
   * running; otherwise the description asks the model to leave them empty. Returns the same object while
   * nothing changes.
   */
  fixedSchema(schema: JsonSchema): JsonSchema {
    const isFixed = this.#properties.every(isConstant)
    const atHand = isFixed ? { input: undefined } : inputAtHand(this.#options.input ?? graphInput)
    const known = this.#properties.map((placed) => this.#known(placed, atHand))
    const key = JSON.stringify(known)
    if (this.#shown?.key === key && this.#shown.of === schema) return this.#shown.schema
    let fixed = schema
    for (const [index, placed] of this.#properties.entries()) {
      const argument = known[index]
      if (argument === undefined) continue
      const next = this.#fixed(fixed, placed, argument)
      if (next === undefined) this.#warn(placed)
      else fixed = next
    }
    this.#shown = { key, of: schema, schema: fixed }
    return fixed
  }

  /**
   * Merges the properties into the model's arguments, and replaces values of the model.
   *
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for a path or a value that cannot be used
   */
  async merge(
    args: unknown,
    { schema, config }: { readonly schema: JsonSchema; readonly config: RunnableConfig },
  ): Promise<MergedArguments> {
    const { input: resolver = graphInput, origin, resources = [] } = this.#options
    const isFixed = this.#properties.every(isConstant)
    const input = isFixed ? undefined : await inputOf(config, resolver)
    let merged = args
    let shown = args
    const secrets: string[] = []
    for (const placed of this.#properties) {
      const fixed = resolveProperty(placed, { input, origin, resources })
      if (this.#fixed(schema, placed, knownFrom(fixed)) === undefined) {
        this.#warn(placed)
        continue
      }
      merged = withValueAt(merged, fixed.steps, fixed.value)
      shown = withValueAt(shown, fixed.steps, fixed.shown)
      secrets.push(...secretTextsOf(placed, fixed))
    }
    return { args: merged, shown, secrets: secretsIn(secrets) }
  }

  /** Returns the property that caused a validation error of merged arguments. A model cannot correct it. */
  causeOf({ place, text }: ValidationError): string | undefined {
    const at = place.split('/').slice(1)
    return this.#properties.find(({ steps }) => {
      const last = steps.at(-1)
      const isMissing = last?.kind === 'field' && text.includes(`required property "${last.name}"`)
      if (isMissing && at.length === steps.length - 1) return isBelow(at, steps.slice(0, -1))
      return isBelow(at, steps)
    })?.path
  }

  #known(
    placed: PlacedProperty,
    atHand: { readonly input: unknown } | undefined,
  ): KnownArgument | undefined {
    if (!isConstant(placed) && atHand === undefined) return { kind: 'secret' }
    const { origin, resources = [] } = this.#options
    try {
      return knownFrom(resolveProperty(placed, { input: atHand?.input, origin, resources }))
    } catch {
      return { kind: 'secret' } // the call itself reports the error
    }
  }

  #fixed(schema: JsonSchema, placed: PlacedProperty, known: KnownArgument): JsonSchema | undefined {
    try {
      return withFixedArgument(schema, placed.steps, known)
    } catch (error) {
      if (!(error instanceof InvalidValueError)) throw error
      throw invalidArgument(this.#options.origin, { path: placed.path, reason: error.message })
    }
  }

  #warn({ path }: PlacedProperty): void {
    if (this.#warned.has(path)) return
    this.#warned.add(path)
    const { log, origin } = this.#options
    const server = serverTitle(origin.server)
    log({
      level: 'warning',
      code: 'ARGUMENT_SKIPPED',
      message: `The argument property "${path}" of tool "${origin.toolName}" of MCP server "${server}" is skipped: the tool's schema has no such place`,
      server,
      tool: origin.toolName,
    })
  }
}

function knownFrom({ value, shown, isSensitive }: FixedArgument): KnownArgument {
  if (value === undefined) return { kind: 'absent' }
  return isSensitive ? { kind: 'secret' } : { kind: 'value', shown }
}

function secretTextsOf(placed: PlacedProperty, { value, isSensitive }: FixedArgument): string[] {
  if (isSensitive) return [...secretsIn(value)]
  if (!Array.isArray(value)) return []
  return placed.items.flatMap((item) => {
    const index = item.steps.at(-1)
    if (index?.kind !== 'item') return []
    const isSecret = 'isSensitive' in item.property && item.property.isSensitive
    const inner: unknown = value[index.index]
    if (isSecret) return [...secretsIn(inner)]
    return Array.isArray(inner)
      ? secretTextsOf(item, { path: '', steps: [], value: inner, shown: inner, isSensitive: false })
      : []
  })
}

/** Returns true if a JSON pointer, split into parts, is at or below a path. */
function isBelow(pointer: readonly string[], steps: readonly PathStep[]): boolean {
  return (
    pointer.length >= steps.length &&
    steps.every((step, index) => {
      const part = pointer[index]?.replaceAll('~1', '/').replaceAll('~0', '~')
      if (step.kind === 'field') return part === step.name
      return step.kind === 'items' || part === String(step.index)
    })
  )
}

/** Returns true for `argumentProperties` with at least one property. */
export function hasArgumentProperties(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && Object.keys(value).length > 0
}

/** Returns the agent's input, for arguments that come from it. */
export type InputResolver = (config: RunnableConfig) => unknown

/**
 * The default resolver: returns the state of the graph for the running task. It contains the graph's input
 * under the names of the state schema. Undefined outside a graph.
 */
function graphInput(config: RunnableConfig): unknown {
  // Tool nodes pass the state in the config. Elsewhere LangGraph's own `getCurrentTaskInput` reads it from
  // the scratchpad.
  if ('state' in config && isRecord(config.state)) return config.state
  const scratchpad: unknown = config.configurable?.['__pregel_scratchpad']
  return isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
}

const inputs = new WeakMap<CurrentRun, Map<InputResolver, unknown>>()

/** Returns the input for one call. Inside `runInSessionScope` each resolver is called once per run. */
async function inputOf(config: RunnableConfig, resolver: InputResolver): Promise<unknown> {
  const run = resolver === graphInput ? undefined : currentRun()
  if (run === undefined) return resolver(config)
  const known = inputs.get(run) ?? new Map<InputResolver, unknown>()
  inputs.set(run, known)
  if (!known.has(resolver)) known.set(resolver, resolver(config))
  try {
    return await known.get(resolver)
  } catch (error) {
    known.delete(resolver)
    throw error
  }
}

/**
 * Returns the input for the schema that the model sees, if a graph is running and the resolver is
 * synchronous.
 */
function inputAtHand(resolver: InputResolver): { readonly input: unknown } | undefined {
  const given: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
  if (!isRecord(given) || !isRecord(given['configurable'])) return undefined
  const config: RunnableConfig = given
  const input = resolver(config)
  if (isRecord(input) && typeof input['then'] === 'function') {
    void Promise.resolve(input).catch(() => {}) // the call itself reports the error
    return undefined
  }
  return input === undefined ? undefined : { input }
}
