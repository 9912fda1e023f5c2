import type { RunnableConfig } from '@langchain/core/runnables'
import { ToolInputParsingException, type ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord } from '@x/internal'
import {
  ArgumentProperties,
  hasArgumentProperties,
  type InputResolver,
} from '../arguments/argument-properties.ts'
import { invalidArgument } from '../arguments/argument-property.ts'
import type { NamedResource } from '../arguments/resolve-property.ts'
import { McpToolError, toolErrorFrom, type McpToolErrorCode } from '../base/errors.ts'
import type { ToolLog, ToolLogEntry } from '../base/log.ts'
import {
  serverTitle,
  type JsonSchema,
  type McpToolOrigin,
  type McpToolSource,
  type ToolDefinition,
} from '../base/tool-source.ts'
import { breakingChanges, parameterText } from '../schema/definition-drift.ts'
import { linesOf, SchemaCheck } from '../schema/schema-check.ts'
import { schemaDefectOf } from '../schema/schema-defect.ts'
import {
  projectedSchema,
  type ProjectedSchema,
  type SchemaProjection,
} from '../schema/schema-projection.ts'

interface ToolBindingFields {
  readonly definition: ToolDefinition
  readonly origin: McpToolOrigin
  readonly source: McpToolSource
  readonly log: ToolLog
  readonly projection: SchemaProjection
  /** Whether the definition is compared with the server's before each call. */
  readonly refreshBeforeCall: boolean
  readonly argumentProperties: Readonly<Record<string, unknown>>
  readonly input: InputResolver | undefined
  readonly resources: readonly NamedResource[] | undefined
  readonly timeoutMs: number | undefined
  /** Told after the definition was replaced by the server's. */
  readonly onHealed: () => void
}

/** A call as it may go out, or why it may not. */
export type PreparedCall =
  | {
      readonly kind: 'ready'
      readonly args: Record<string, unknown>
      /** The same for eyes: sensitive values are hidden. */
      readonly shown: Record<string, unknown>
      /** Texts that nobody may see. */
      readonly secrets: readonly string[]
    }
  | {
      readonly kind: 'refused'
      readonly error: McpToolError
      readonly shown: Record<string, unknown>
    }

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/**
 * What a tool is at the moment: its definition, the schema that its arguments have to fit, and the one that
 * the model is shown. A definition that its server has replaced in a breaking way is replaced here, too.
 */
export class ToolBinding {
  readonly #fields: ToolBindingFields
  readonly #properties: ArgumentProperties | undefined
  #definition: ToolDefinition
  #input: SchemaCheck
  #output: SchemaCheck | undefined
  #outputSchema: JsonSchema | undefined
  #shown: (ProjectedSchema & { readonly of: JsonSchema }) | undefined

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that cannot be read */
  constructor(fields: ToolBindingFields) {
    const { definition, argumentProperties, origin, log, input, resources } = fields
    this.#fields = fields
    this.#definition = definition
    this.#properties = hasArgumentProperties(argumentProperties)
      ? new ArgumentProperties(argumentProperties, { origin, log, input, resources })
      : undefined
    this.#input = new SchemaCheck(this.inputSchema)
    this.#useOutput(definition)
  }

  get definition(): ToolDefinition {
    return this.#definition
  }

  /** The whole schema: what arguments have to fit. */
  get inputSchema(): JsonSchema {
    return this.#definition.inputSchema ?? NO_PARAMETERS
  }

  /** What the model is shown, and what of the whole it is not. */
  get shown(): ProjectedSchema {
    const { inputSchema } = this
    // One that cannot be followed is shown as it is, and left to the server.
    if (schemaDefectOf(inputSchema) !== undefined) return { schema: inputSchema, notes: [] }
    const schema = this.#properties?.fixedSchema(inputSchema) ?? inputSchema
    if (this.#shown?.of !== schema) {
      const projected = projectedSchema(schema, this.#fields.projection)
      const isNews = projected.notes.join() !== (this.#shown?.notes.join() ?? '')
      this.#shown = { ...projected, of: schema }
      if (isNews) this.#logNotes(projected.notes)
    }
    return this.#shown
  }

  /**
   * Makes a call of what the model gave: compared with what the server has now, completed with what is
   * configured, checked against the whole schema.
   *
   * @throws {ToolInputParsingException} for arguments that do not fit
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for configured ones that do not
   */
  async prepare(
    input: unknown,
    { name, config }: { readonly name: string; readonly config: ToolRunnableConfig },
  ): Promise<PreparedCall> {
    const given = jsonArgumentsFrom(input)
    const { refreshBeforeCall } = this.#fields
    const refusal = refreshBeforeCall ? await this.#refusal(name, config) : undefined
    if (refusal !== undefined) {
      const shown = acceptedArguments(given ?? {}, { given, complaints: [] })
      return { kind: 'refused', error: refusal, shown }
    }
    const { args, shown, secrets } = this.#properties
      ? await this.#properties.merge(given, { schema: this.inputSchema, config })
      : { args: given, shown: given, secrets: [] }
    const complaints = this.#input.located(args)
    for (const complaint of complaints) {
      const path = this.#properties?.causeOf(complaint)
      if (path === undefined) continue
      const reason = 'the tool does not take its value, or needs one where there is none'
      throw invalidArgument(this.#fields.origin, { path, reason })
    }
    const accepted = acceptedArguments(args, { given, complaints: linesOf(complaints) })
    if (shown === args) return { kind: 'ready', args: accepted, shown: accepted, secrets }
    const visible = acceptedArguments(shown, { given, complaints: [] })
    return { kind: 'ready', args: accepted, shown: visible, secrets }
  }

  /** What is wrong with a structured result, by the newest output schema that is known. */
  outputComplaints(structured: unknown): readonly string[] {
    return this.#output?.complaints(structured) ?? []
  }

  /** Two calls that meet the same change are both told of it; the tool is bound anew once. */
  async #refusal(name: string, config: ToolRunnableConfig): Promise<McpToolError | undefined> {
    const bound = this.#definition
    const { source, origin, log, timeoutMs } = this.#fields
    const drift = await driftOf(bound, { source, origin, log, config, timeoutMs })
    if (drift.kind === 'none') {
      if (drift.live !== undefined) this.#useOutput(drift.live)
      return undefined
    }
    if (drift.kind === 'removed') {
      return this.#notRun(
        'TOOL_REMOVED',
        `Tool "${name}" no longer exists on server "${serverTitle(origin.server)}", so it was not executed. Do not call it again: use another tool, or tell the user.`,
      )
    }
    if (this.#definition === bound) this.#heal(drift.live, drift.changes)
    return this.#notRun(
      'SCHEMA_CHANGED',
      `The parameters of tool "${name}" have changed since you were told of them, so it was not executed: ${drift.changes.join('; ')}. Its parameters are now: ${parameterText(this.shown.schema)}. Call it again with these.`,
    )
  }

  #heal(live: ToolDefinition, changes: readonly string[]): void {
    const { origin, log, onHealed } = this.#fields
    const { description } = this.#definition
    this.#definition = {
      ...live,
      description: live.description?.trim() ? live.description : description,
    }
    this.#input = new SchemaCheck(this.inputSchema)
    this.#useOutput(live)
    const server = serverTitle(origin.server)
    log({
      level: 'info',
      code: 'SCHEMA_CHANGED',
      message: `Tool "${origin.toolName}" of MCP server "${server}" is bound to the server's definition now: ${changes.join('; ')}`,
      server,
      tool: origin.toolName,
    })
    onHealed()
  }

  #useOutput({ outputSchema }: ToolDefinition): void {
    if (outputSchema === this.#outputSchema) return
    this.#outputSchema = outputSchema
    this.#output = outputSchema === undefined ? undefined : new SchemaCheck(outputSchema)
  }

  #notRun(code: 'SCHEMA_CHANGED' | 'TOOL_REMOVED', message: string): McpToolError {
    const { server, toolName } = this.#fields.origin
    return new McpToolError(code, message, { server, toolName, outcome: 'not-executed' })
  }

  #logNotes(notes: readonly string[]): void {
    if (notes.length === 0) return
    const { origin, log } = this.#fields
    const server = serverTitle(origin.server)
    log({
      level: 'info',
      code: 'SCHEMA_SIMPLIFIED',
      message: `The model does not see all of the schema of tool "${origin.toolName}" of MCP server "${server}", it is checked at the call: ${notes.join('; ')}`,
      server,
      tool: origin.toolName,
    })
  }
}

/** How long a call waits to learn what the server has now, at most. A list that is known costs nothing. */
const LIST_MS = 60_000

/** What a stored definition was last found to fit: a client's list is the same until it is read anew. */
const FITS = new WeakMap<ToolDefinition, ToolDefinition>()

/** What became of a tool since its definition was stored. */
type Drift =
  /** Calls still fit. `live` is what the server has, if it could be asked. */
  | { readonly kind: 'none'; readonly live?: ToolDefinition | undefined }
  | {
      readonly kind: 'breaking'
      readonly live: ToolDefinition
      readonly changes: readonly string[]
    }
  | { readonly kind: 'removed' }

interface DriftOptions {
  readonly source: McpToolSource
  readonly origin: McpToolOrigin
  readonly log: ToolLog
  readonly config: RunnableConfig
  /** Limit of the call in milliseconds. */
  readonly timeoutMs?: number | undefined
}

/**
 * Compares the definition that a model was told of with the server's list, which its client keeps. Where
 * there is no list to be had, the stored definition counts.
 *
 * @throws the reason of the run's signal, and what interrupts the graph
 */
async function driftOf(bound: ToolDefinition, options: DriftOptions): Promise<Drift> {
  const { source, config, origin, log, timeoutMs = LIST_MS } = options
  const { signal } = config
  let list: readonly ToolDefinition[]
  try {
    list = await source.listTools({ signal, config, timeoutMs: Math.min(timeoutMs, LIST_MS) })
  } catch (error) {
    signal?.throwIfAborted()
    if (isInterrupt(error)) throw error
    const code = toolErrorFrom(error, origin)?.code
    report({ log, origin }, 'LIST_FAILED', {
      what: `could not be compared with its server: ${reasonOf(error)}`,
      // The call will fail in the same way, and be told: one failure, one warning.
      level: code !== undefined && FAILS_ALIKE.has(code) ? 'info' : 'warning',
    })
    return { kind: 'none' }
  }
  const live = list.find(({ name }) => name === origin.toolName)
  if (live === undefined) {
    report({ log, origin }, 'TOOL_REMOVED', { what: 'is no longer offered: it was not called' })
    return { kind: 'removed' }
  }
  if (live.inputSchema === bound.inputSchema || FITS.get(bound) === live) {
    return { kind: 'none', live }
  }
  const isReadable =
    bound.inputSchema === undefined || schemaDefectOf(bound.inputSchema) === undefined
  if (!isReadable) return { kind: 'none', live } // it was left to the server, and still is
  const defect = live.inputSchema === undefined ? undefined : schemaDefectOf(live.inputSchema)
  if (defect !== undefined) {
    const what = `has a schema now that cannot be used: ${defect}`
    report({ log, origin }, 'TOOL_QUARANTINED', { what })
    return { kind: 'none' }
  }
  const changes = breakingChanges(bound, live)
  if (changes.length === 0) FITS.set(bound, live)
  return changes.length > 0 ? { kind: 'breaking', live, changes } : { kind: 'none', live }
}

/** Failures to reach the server at all. */
const FAILS_ALIKE: ReadonlySet<McpToolErrorCode> = new Set<McpToolErrorCode>([
  'UNREACHABLE',
  'UNAUTHORIZED',
  'CONFIG',
  'CLOSED',
])

function report(
  { log, origin }: Pick<DriftOptions, 'log' | 'origin'>,
  code: 'LIST_FAILED' | 'TOOL_REMOVED' | 'TOOL_QUARANTINED',
  { what, level = 'warning' }: { readonly what: string; readonly level?: ToolLogEntry['level'] },
): void {
  const server = serverTitle(origin.server)
  const tool = origin.toolName
  const message = `Tool "${tool}" of MCP server "${server}" ${what}`
  log({ level, code, message, server, tool })
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** LangGraph's own, which belongs to the graph. */
function isInterrupt(error: unknown): boolean {
  return error instanceof Error && 'is_bubble_up' in error && error.is_bubble_up === true
}

/**
 * What a model gave as arguments, as JSON: an optional argument that is `undefined` is simply absent, and
 * one called `__proto__` or `constructor` is data like any other. No arguments at all are `{}`, which is
 * how models call a tool without parameters.
 */
function jsonArgumentsFrom(input: unknown): unknown {
  return JSON.parse(JSON.stringify(input ?? {}) ?? '{}')
}

/**
 * The arguments as they will go over the wire, if nothing is wrong with them.
 *
 * @throws {ToolInputParsingException} which `ToolNode` and `createAgent` hand back to the model
 */
function acceptedArguments(
  args: unknown,
  { given, complaints }: { readonly given: unknown; readonly complaints: readonly string[] },
): Record<string, unknown> {
  // What the model gave, not what it was merged with: that may hold what nobody is to see.
  const json = (): string => JSON.stringify(given) ?? ''
  if (complaints.length > 0) {
    throw new ToolInputParsingException(
      `The arguments do not fit the tool's schema, so it was not called. ${complaints.join('; ')}`,
      json(),
    )
  }
  if (!isRecord(args)) {
    throw new ToolInputParsingException('The arguments of an MCP tool are an object', json())
  }
  return { ...args }
}
