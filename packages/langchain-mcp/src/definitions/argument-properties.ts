import type { RunnableConfig } from '@langchain/core/runnables'
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
  valueOf,
  type NamedResource,
  type PlacedProperty,
  type ResolveContext,
} from './argument-property.ts'
import { withFixedArgument } from './fixed-in-schema.ts'
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
  #fixed: FixedInSchema | undefined

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

  /** Returns the schema with these arguments fixed. The model sees values that are the same in every run. */
  fixedSchema(schema: JsonSchema): JsonSchema {
    return this.#in(schema).shown
  }

  /**
   * Merges the properties into the model's arguments, and replaces values of the model.
   *
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for a path that cannot be used
   */
  async merge(
    args: unknown,
    { schema, config }: { readonly schema: JsonSchema; readonly config: RunnableConfig },
  ): Promise<MergedArguments> {
    const context = this.#contextWith(this.#input && (await inputOf(config, this.#input)))
    let merged = args
    let redacted = args
    const secrets: unknown[] = []
    for (const placed of this.#in(schema).properties) {
      const value = valueOf(placed, context)
      const isSecret = placed.property.isSensitive && value !== undefined
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

  /** Finds the places of the properties. Warns of those that the schema does not have. */
  #in(schema: JsonSchema): FixedInSchema {
    if (this.#fixed?.of === schema) return this.#fixed
    let shown = schema
    const properties = this.#properties.filter((placed) => {
      const isShown = isConstant(placed) && !placed.property.isSensitive
      const value = isShown ? valueOf(placed, this.#contextWith(undefined)) : undefined
      const changed = withFixedArgument(shown, placed.steps, value)
      if (changed === undefined) this.#warn(placed.path)
      else shown = changed
      return changed !== undefined
    })
    return (this.#fixed = { of: schema, shown, properties })
  }

  #warn(path: string): void {
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

/** The properties that have a place in a schema. */
interface FixedInSchema {
  readonly of: JsonSchema
  /** The part that the model sees. */
  readonly shown: JsonSchema
  readonly properties: readonly PlacedProperty[]
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
