import type { RunnableConfig } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { isRecord } from '@x/internal'
import { currentRun, type CurrentRun } from '@x/mcp-client'
import { taskInputOf } from '../graph/langgraph.ts'
import type { McpToolError } from '../errors.ts'
import type { ToolLog } from '../log.ts'
import type { InputResolver } from '../tools/mcp-tool.ts'
import type { FixedArguments, MergedArguments } from '../tools/tool-binding.ts'
import { serverTitle, type JsonSchema, type McpToolOrigin } from '../tool-source.ts'
import type { ValidationError } from '@x/internal/schema-check'
import {
  invalidArgument,
  isConstant,
  placedPropertiesFrom,
  resolveProperty,
  type NamedResource,
  type PlacedProperty,
  type ResolveContext,
} from './argument-property.ts'
import { InvalidValueError, withFixedArgument, type KnownArgument } from './fixed-in-schema.ts'
import { withValueAt, type PathStep } from './json-path.ts'
import { HIDDEN, secretsIn } from '../secrets.ts'

interface ArgumentPropertiesOptions {
  readonly origin: McpToolOrigin
  readonly log: ToolLog
  /** Undefined for the state of the graph. */
  readonly input: InputResolver | undefined
  /** Resources that texts can name. */
  readonly resources: readonly NamedResource[]
}

/**
 * The arguments of a tool that the agent definition sets instead of the model. A property for a place that
 * the schema does not have is skipped, in the shown schema and in the call, with one warning.
 */
export class ArgumentProperties implements FixedArguments {
  readonly #properties: readonly PlacedProperty[]
  readonly #origin: McpToolOrigin
  readonly #log: ToolLog
  readonly #resources: readonly NamedResource[]
  /** Undefined if no value depends on the input. */
  readonly #input: InputResolver | undefined
  readonly #warned = new Set<string>()
  #shown: { readonly key: string; readonly of: JsonSchema; readonly schema: JsonSchema } | undefined

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for properties that cannot be parsed */
  constructor(
    argumentProperties: Readonly<Record<string, unknown>>,
    { origin, log, input = graphInput, resources }: ArgumentPropertiesOptions,
  ) {
    this.#properties = placedPropertiesFrom(argumentProperties, origin)
    this.#origin = origin
    this.#log = log
    this.#resources = resources
    this.#input = this.#properties.every(isConstant) ? undefined : input
  }

  /**
   * Returns the schema with these arguments fixed. Values from the agent's input are shown if a graph is
   * running; otherwise the description asks the model to leave them empty. Returns the same object while
   * nothing changes.
   */
  fixedSchema(schema: JsonSchema): JsonSchema {
    const input = this.#input === undefined ? undefined : inputAtHand(this.#input)
    const known = this.#properties.map((placed) => this.#known(placed, input))
    const key = JSON.stringify(known)
    if (this.#shown?.key === key && this.#shown.of === schema) return this.#shown.schema
    let fixed = schema
    for (const [index, placed] of this.#properties.entries()) {
      fixed = this.#fixed(fixed, placed, known[index] ?? 'secret') ?? fixed
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
    const input = this.#input && (await inputOf(config, this.#input))
    let merged = args
    let redacted = args
    const secrets: unknown[] = []
    for (const placed of this.#properties) {
      const { value, known } = resolveProperty(placed, this.#contextWith(input))
      if (this.#fixed(schema, placed, known) === undefined) continue
      const isSecret = known === 'secret'
      if (isSecret) secrets.push(value)
      merged = withValueAt(merged, placed.steps, value)
      redacted = withValueAt(redacted, placed.steps, isSecret ? HIDDEN : value)
    }
    return { args: merged, redacted, secrets: secretsIn(secrets) }
  }

  /** Returns the error for the property that caused a validation error of merged arguments. */
  invalid({ place, text }: ValidationError): McpToolError | undefined {
    const at = place.split('/').slice(1)
    const cause = this.#properties.find(({ steps }) => {
      const last = steps.at(-1)
      const isMissing = typeof last === 'string' && text.includes(`required property "${last}"`)
      if (isMissing && at.length === steps.length - 1) return isBelow(at, steps.slice(0, -1))
      return isBelow(at, steps)
    })
    if (cause === undefined) return undefined
    const reason = 'the tool does not accept its value, or requires one and there is none'
    return invalidArgument({ ...this.#origin, path: cause.path }, reason)
  }

  #contextWith(input: unknown): ResolveContext {
    return { input, origin: this.#origin, resources: this.#resources }
  }

  /** `input`: undefined if the agent's input is not known yet. */
  #known(placed: PlacedProperty, input: unknown): KnownArgument {
    if (input === undefined && !isConstant(placed)) return 'secret'
    try {
      return resolveProperty(placed, this.#contextWith(input)).known
    } catch {
      return 'secret' // the call itself reports the error
    }
  }

  /** Returns undefined, with a warning, if the schema has no such place. */
  #fixed(
    schema: JsonSchema,
    { path, steps }: PlacedProperty,
    known: KnownArgument,
  ): JsonSchema | undefined {
    try {
      const fixed = withFixedArgument(schema, steps, known)
      if (fixed === undefined) this.#warn(path)
      return fixed
    } catch (error) {
      if (!(error instanceof InvalidValueError)) throw error
      throw invalidArgument({ ...this.#origin, path }, error.message)
    }
  }

  #warn(path: string): void {
    if (this.#warned.has(path)) return
    this.#warned.add(path)
    const { server, toolName: tool } = this.#origin
    const title = serverTitle(server)
    this.#log({
      level: 'warning',
      code: 'ARGUMENT_SKIPPED',
      message: `The argument property "${path}" of tool "${tool}" of MCP server "${title}" is skipped: the tool's schema has no such place`,
      server: title,
      tool,
    })
  }
}

/** Returns true if a JSON pointer, split into parts, is at or below a path. */
function isBelow(pointer: readonly string[], steps: readonly PathStep[]): boolean {
  return (
    pointer.length >= steps.length &&
    steps.every((step, index) => {
      const part = pointer[index]?.replaceAll('~1', '/').replaceAll('~0', '~')
      return part === String(step)
    })
  )
}

/**
 * The default resolver: returns the state of the graph for the running task. It contains the graph's input
 * under the names of the state schema. Undefined outside a graph.
 */
function graphInput(config: RunnableConfig): unknown {
  // Tool nodes pass the state in the config.
  return 'state' in config && isRecord(config.state) ? config.state : taskInputOf(config)
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
function inputAtHand(resolver: InputResolver): unknown {
  const given: unknown = AsyncLocalStorageProviderSingleton.getRunnableConfig()
  if (!isRecord(given) || !isRecord(given['configurable'])) return undefined
  const config: RunnableConfig = given
  const input = resolver(config)
  if (!isRecord(input) || typeof input['then'] !== 'function') return input
  void Promise.resolve(input).catch(() => {}) // the call itself reports the error
  return undefined
}
