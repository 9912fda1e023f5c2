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
import { linesOf, SchemaCheck, type ValidationError } from '../schema/schema-check.ts'
import { schemaDefectOf } from '../schema/json-schema.ts'
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
  /** Compares the definition with the server's before each call. */
  readonly refreshBeforeCall: boolean
  readonly argumentProperties: Readonly<Record<string, unknown>>
  readonly input: InputResolver | undefined
  readonly resources: readonly NamedResource[] | undefined
  readonly timeoutMs: number | undefined
  /** Called after the server's definition replaced the stored one. */
  readonly onHealed: () => void
}

/** A call that may be sent, or the error that refuses it. */
export type PreparedCall =
  | {
      readonly kind: 'ready'
      readonly args: Record<string, unknown>
      /** The same without sensitive values. */
      readonly shown: Record<string, unknown>
      /** Sensitive texts. */
      readonly secrets: readonly string[]
    }
  | {
      readonly kind: 'refused'
      readonly error: McpToolError
      readonly shown: Record<string, unknown>
    }

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/**
 * The current state of a tool: its definition, the schema for its arguments, and the schema that the model
 * sees. A breaking change on the server replaces the definition.
 */
export class ToolBinding {
  readonly #fields: ToolBindingFields
  readonly #properties: ArgumentProperties | undefined
  #definition: ToolDefinition
  #input: SchemaCheck
  #output: SchemaCheck | undefined
  #outputSchema: JsonSchema | undefined
  #shown: (ProjectedSchema & { readonly of: JsonSchema }) | undefined

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that cannot be parsed */
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

  /** The whole schema of the arguments. */
  get inputSchema(): JsonSchema {
    return this.#definition.inputSchema ?? NO_PARAMETERS
  }

  /** The schema that the model sees, and notes about its hidden parts. */
  get shown(): ProjectedSchema {
    const { inputSchema } = this
    // A schema with a defect cannot be evaluated here, so the model sees it whole and the server checks the call.
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
   * Prepares a call from the model's arguments: compares the definition with the server's, adds argument
   * properties, and checks the result against the whole schema.
   *
   * @throws {ToolInputParsingException} for arguments that do not fit
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that do not fit
   */
  async prepare(
    input: unknown,
    { name, config }: { readonly name: string; readonly config: ToolRunnableConfig },
  ): Promise<PreparedCall> {
    const given = jsonArgumentsFrom(input)
    const { refreshBeforeCall } = this.#fields
    const refusal = refreshBeforeCall ? await this.#refusal(name, config) : undefined
    if (refusal !== undefined) {
      const shown = acceptedArguments(given ?? {}, { given })
      return { kind: 'refused', error: refusal, shown }
    }
    const { args, shown, secrets } = this.#properties
      ? await this.#properties.merge(given, { schema: this.inputSchema, config })
      : { args: given, shown: given, secrets: [] }
    const errors = this.#input.locatedErrors(args)
    for (const error of errors) {
      const path = this.#properties?.causeOf(error)
      if (path === undefined) continue
      const reason = 'the tool does not accept its value, or requires one and there is none'
      throw invalidArgument(this.#fields.origin, { path, reason })
    }
    const accepted = acceptedArguments(args, { given, errors })
    if (shown === args) return { kind: 'ready', args: accepted, shown: accepted, secrets }
    const visible = acceptedArguments(shown, { given })
    return { kind: 'ready', args: accepted, shown: visible, secrets }
  }

  /** Returns the validation errors of a structured result, by the newest known output schema. */
  outputErrors(structured: unknown): readonly string[] {
    return this.#output?.errors(structured) ?? []
  }

  /** Two concurrent calls both report a change, but the definition is replaced once. */
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
      `The parameters of tool "${name}" have changed since you saw them, so it was not executed: ${drift.changes.join('; ')}. Its parameters are now: ${parameterText(this.shown.schema)}. Call it again with these.`,
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
      message: `Tool "${origin.toolName}" of MCP server "${server}" uses the server's definition from now on: ${changes.join('; ')}`,
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
      message: `The model sees only a part of the schema of tool "${origin.toolName}" of MCP server "${server}", which is checked at the call: ${notes.join('; ')}`,
      server,
      tool: origin.toolName,
    })
  }
}

/** Limit of the list request before a call. A cached list needs no request. */
const LIST_MS = 60_000

/**
 * The server's definition that a stored one was last found to fit. Clients cache their lists, so the objects
 * are often the same.
 */
const FITS = new WeakMap<ToolDefinition, ToolDefinition>()

/** Change of a tool since its definition was stored. */
type Drift =
  /** Calls still fit. `live` is the server's definition, if the list request succeeded. */
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
 * Compares the definition that a model saw with the server's list. Without a list, the stored definition
 * counts.
 *
 * @throws the reason of the run's signal, and interrupts of the graph
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
      // The call will fail in the same way and report it, so one warning is enough.
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
  if (!isReadable) return { kind: 'none', live } // only the server can check its arguments
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

/** Failures of a list request that the call will have too. */
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

/** Interrupts belong to the graph. */
function isInterrupt(error: unknown): boolean {
  return error instanceof Error && 'is_bubble_up' in error && error.is_bubble_up === true
}

/**
 * Returns the model's arguments as JSON. An `undefined` argument is left out, and `__proto__` or
 * `constructor` are names like any other. No arguments at all become `{}`, as models call tools without
 * parameters.
 */
function jsonArgumentsFrom(input: unknown): unknown {
  return JSON.parse(JSON.stringify(input ?? {}) ?? '{}')
}

/**
 * Returns the arguments if there are no validation errors.
 *
 * @throws {ToolInputParsingException} which `ToolNode` and `createAgent` pass to the model
 */
function acceptedArguments(
  args: unknown,
  { given, errors = [] }: { readonly given: unknown; readonly errors?: readonly ValidationError[] },
): Record<string, unknown> {
  // The model's own arguments, because the merged ones may contain sensitive values.
  const json = (): string => JSON.stringify(given) ?? ''
  if (errors.length > 0) {
    throw new ToolInputParsingException(
      `The arguments do not fit the tool's schema, so it was not called. ${linesOf(errors).join('; ')}`,
      json(),
    )
  }
  if (!isRecord(args)) {
    throw new ToolInputParsingException('The arguments of an MCP tool are an object', json())
  }
  return { ...args }
}
