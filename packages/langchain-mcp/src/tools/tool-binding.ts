import type { RunnableConfig } from '@langchain/core/runnables'
import { ToolInputParsingException, type ToolRunnableConfig } from '@langchain/core/tools'
import { isRecord, legibleSchema, withoutErrorLink } from '@x/internal'
import { fittedArguments } from './fitted-arguments.ts'
import { McpToolError, toolErrorFrom, type McpToolErrorCode } from '../errors.ts'
import type { ToolLog, ToolLogEntry } from '../log.ts'
import { isAppOnly } from '../mcp-apps.ts'
import {
  serverTitle,
  type JsonSchema,
  type McpToolOrigin,
  type McpToolSource,
  type ToolDefinition,
} from '../tool-source.ts'
import { wellFormed } from './well-formed.ts'
import { answeredByClient } from '../graph/elicitation-to-interrupt.ts'
import { isInterrupt } from '../graph/langgraph.ts'
import { linesOf, SchemaCheck, type ValidationError } from '@x/internal/schema-check'
import { breaksCalls, parameterText, schemaDefectOf } from './json-schema.ts'
import { projectedSchema, type ProjectedSchema } from './schema-projection.ts'
import { withServerNames } from './shown-names.ts'
import { interceptorsFrom, type ToolInterceptor } from './interceptors.ts'
import type { McpToolFields, McpToolOptions } from './mcp-tool.ts'

/** The complete arguments of one call. */
export interface MergedArguments<Arguments = unknown> {
  readonly args: Arguments
  /** The arguments for people and logs: sensitive values are `<hidden>`. */
  readonly redacted: Arguments
  /** Sensitive texts. */
  readonly secrets: readonly string[]
}

/** The arguments of a call that fit the schema of the tool. */
export type PreparedCall = MergedArguments<Record<string, unknown>>

/** Arguments of a tool that its definition sets instead of the model. */
export interface FixedArguments {
  /** Returns the schema for the model. Returns the same object while nothing changes. */
  fixedSchema(schema: JsonSchema): JsonSchema
  /** Adds the arguments to those of the model. */
  merge(
    args: unknown,
    call: { readonly schema: JsonSchema; readonly config: RunnableConfig },
  ): Promise<MergedArguments>
  /** Returns the error for one of these arguments that does not fit the schema. A model cannot correct it. */
  invalid(error: ValidationError): McpToolError | undefined
}

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/** Limit of the list request before a call. A cached list needs no request. */
const LIST_MS = 60_000

/**
 * The server's definition that a stored one was last found to fit. Clients cache their lists, so the objects
 * are often the same.
 */
const FITS = new WeakMap<ToolDefinition, ToolDefinition>()

/** Failures of a list request that the call will have too. */
const FAILS_ALIKE: ReadonlySet<McpToolErrorCode | undefined> = new Set<McpToolErrorCode>([
  'UNREACHABLE',
  'UNAUTHORIZED',
  'CONFIG',
  'CLOSED',
])

/**
 * The current state of a tool: its definition, the schema for its arguments, and the schema that the model
 * sees. A breaking change on the server replaces the definition.
 */
export class ToolBinding {
  readonly origin: McpToolOrigin
  readonly source: McpToolSource
  readonly options: McpToolOptions
  /** From the server or the agent definition. */
  definition: ToolDefinition
  readonly interceptors: readonly ToolInterceptor[]
  readonly #log: ToolLog
  readonly #refreshBeforeCall: boolean
  /** The definition is that of an earlier process, until a list of this one has it too. */
  #isStored: boolean
  readonly #fixed: FixedArguments | undefined
  #input: SchemaCheck
  #modelSchema: (ProjectedSchema & { readonly of: JsonSchema }) | undefined

  constructor(fields: McpToolFields) {
    const { definition, server, source, options, fixed } = fields
    const { log, refreshBeforeCall, isStored = false } = fields
    this.origin = { server, toolName: definition.name }
    this.source = source
    this.options = options
    this.interceptors = interceptorsFrom(options, fields.pins, source)
    this.#log = log
    this.#refreshBeforeCall = refreshBeforeCall
    this.#isStored = isStored
    this.definition = definition
    this.#fixed = fixed
    this.#input = new SchemaCheck(this.inputSchema)
  }

  /** The whole schema of the arguments. */
  get inputSchema(): JsonSchema {
    return this.definition.inputSchema ?? NO_PARAMETERS
  }

  /** The schema that the model sees, and notes about its hidden parts. */
  get modelSchema(): ProjectedSchema {
    const { inputSchema } = this
    // A schema with a defect cannot be evaluated here, so the model sees it whole and the server checks the call.
    if (schemaDefectOf(inputSchema) !== undefined) {
      return { schema: wellFormed(inputSchema), notes: [] }
    }
    const schema = this.#fixed?.fixedSchema(inputSchema) ?? inputSchema
    if (this.#modelSchema?.of !== schema) {
      const { names, ...projected } = projectedSchema(
        legibleSchema(schema),
        this.options.schemaFor ?? 'common',
      )
      const notes = projected.notes.join('; ').toWellFormed()
      const isNew = notes !== (this.#modelSchema?.notes.join('; ') ?? '')
      this.#modelSchema = { ...wellFormed(projected), names, of: schema }
      if (isNew && notes !== '') {
        this.#report('SCHEMA_SIMPLIFIED', {
          message: `The model sees only a part of the schema of ${this.#title}, which is checked at the call: ${notes}`,
          level: 'info',
        })
      }
    }
    return this.#modelSchema
  }

  /**
   * Prepares a call from the model's arguments: compares the definition with the server's, repairs known mistakes
   * of models (see `fittedArguments()`), adds argument properties, and checks the result against the whole schema.
   *
   * @param name the name that the model used
   * @throws {ToolInputParsingException} for arguments that do not fit
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for argument properties that do not fit; `TOOL_REMOVED` and
   * `SCHEMA_CHANGED` if the tool is not the one that the model saw
   */
  async prepare(input: unknown, name: string, config: ToolRunnableConfig): Promise<PreparedCall> {
    // Models call tools without parameters with no arguments at all. An `undefined` argument is left out.
    // The model uses the names of the schema that it saw last.
    const { names } = this.#modelSchema ?? this.modelSchema
    const value = withServerNames(input ?? {}, names)
    const isShared = this.interceptors.length === 0 && isJson(value) // an interceptor may write into its arguments
    const given: unknown = isShared ? value : JSON.parse(JSON.stringify(value) ?? '{}')
    const calls = this.options.elicitation || answeredByClient
    // A call that was sent continues, whatever its definition is now.
    const isCompared = this.#refreshBeforeCall || (this.#isStored && this.#isOutdated(config))
    if (isCompared && !(await calls.wasSent(config))) await this.#assertCurrent(name, config)
    let fitted = given
    let errors = this.#input.locatedErrors(given)
    if (errors.length > 0) {
      ;({ value: fitted, errors } = fittedArguments(given, {
        schema: this.inputSchema,
        check: this.#input,
        names: [name, this.origin.toolName],
        argumentNames: names,
      }))
    }
    let merged: MergedArguments = { args: fitted, redacted: fitted, secrets: [] }
    if (this.#fixed !== undefined) {
      merged = await this.#fixed.merge(fitted, { schema: this.inputSchema, config })
      errors = this.#input.locatedErrors(merged.args)
      for (const error of errors) {
        const invalid = this.#fixed.invalid(error)
        if (invalid !== undefined) throw invalid
      }
    }
    if (errors.length > 0) {
      const message = `The arguments do not fit the tool's schema, so it was not called. ${linesOf(errors).join('; ')}`
      throw inputError(message, given)
    }
    const { args, redacted, secrets } = merged
    if (isRecord(args) && isRecord(redacted)) return { args, redacted, secrets }
    throw inputError('The arguments of an MCP tool are an object', given)
  }

  /** Returns true if the definition of an earlier process is not in the list that was read since. */
  #isOutdated(config: ToolRunnableConfig): boolean {
    const known = this.source.knownTools?.(config)
    return known !== undefined && !known.includes(this.definition)
  }

  /**
   * Compares the definition that the model saw with the server's list. Two concurrent calls both report a change, but
   * the definition is replaced once.
   *
   * @throws the reason of the run's signal, and interrupts of the graph
   */
  async #assertCurrent(name: string, config: ToolRunnableConfig): Promise<void> {
    const bound = this.definition
    const list = this.#refreshBeforeCall
      ? await this.#list(config)
      : this.source.knownTools?.(config)
    if (list === undefined) return // the stored definition counts
    const live = list.find((tool) => tool.name === this.origin.toolName)
    if (live === undefined || isAppOnly(live)) {
      const message = `${this.#title} is no longer offered: it was not called`
      this.#report('TOOL_REMOVED', { message, level: 'warning' })
      const server = serverTitle(this.origin.server)
      throw this.#notRun(
        'TOOL_REMOVED',
        `Tool "${name}" is no longer offered by server "${server}", so it was not executed. Do not call it again: use another tool, or tell the user.`,
      )
    }
    if (this.#fits(bound, live)) {
      if (live !== bound) this.#isStored = false
      return
    }
    if (this.definition === bound) this.#replaceBy(live)
    throw this.#notRun(
      'SCHEMA_CHANGED',
      `The parameters of tool "${name}" have changed since you saw them, so it was not executed. Its parameters are now: ${parameterText(this.modelSchema.schema)}. Call it again with these.`,
    )
  }

  /** Returns undefined, with a log entry, if the server gives no list. */
  async #list(config: ToolRunnableConfig): Promise<readonly ToolDefinition[] | undefined> {
    const { signal } = config
    const timeoutMs = Math.min(this.options.timeoutMs ?? LIST_MS, LIST_MS)
    try {
      return await this.source.listTools({ signal, config, timeoutMs, acceptStored: true })
    } catch (error) {
      signal?.throwIfAborted()
      if (isInterrupt(error)) throw error
      const reason = withoutErrorLink(error instanceof Error ? error.message : String(error))
      this.#report('LIST_FAILED', {
        message: `${this.#title} could not be compared with its server: ${reason}`,
        // The call will fail in the same way and report it, so one warning is enough.
        level: FAILS_ALIKE.has(toolErrorFrom(error, this.origin)?.code) ? 'info' : 'warning',
      })
      return undefined
    }
  }

  #fits(bound: ToolDefinition, live: ToolDefinition): boolean {
    const { inputSchema = NO_PARAMETERS } = live
    const older = bound.inputSchema ?? NO_PARAMETERS
    if (inputSchema === older || FITS.get(bound) === live) return true
    // Only the server can check the arguments of a schema with a defect.
    if (schemaDefectOf(older) !== undefined) return true
    const defect = schemaDefectOf(inputSchema)
    if (defect !== undefined) {
      const message = `${this.#title} has a schema now that cannot be used: ${defect}`
      this.#report('TOOL_QUARANTINED', { message, level: 'warning' })
      return true
    }
    if (breaksCalls(older, inputSchema)) return false
    FITS.set(bound, live)
    return true
  }

  #replaceBy(live: ToolDefinition): void {
    const { description } = this.definition
    this.definition = {
      ...live,
      description: live.description?.trim() ? live.description : description,
    }
    this.#input = new SchemaCheck(this.inputSchema)
    const message = `${this.#title} uses the server's definition from now on, because its parameters have changed`
    this.#report('SCHEMA_CHANGED', { message, level: 'info' })
  }

  #notRun(code: 'SCHEMA_CHANGED' | 'TOOL_REMOVED', message: string): McpToolError {
    const { server, toolName } = this.origin
    return new McpToolError(code, message, { server, toolName, outcome: 'not-executed' })
  }

  get #title(): string {
    const { server, toolName } = this.origin
    return `Tool "${toolName}" of MCP server "${serverTitle(server)}"`
  }

  #report(code: ToolLogEntry['code'], entry: Pick<ToolLogEntry, 'level' | 'message'>): void {
    const { server, toolName: tool } = this.origin
    this.#log({ ...entry, code, server: serverTitle(server), tool })
  }
}

/** Returns true for a value that JSON keeps as it is, as nearly all arguments. A copy would take longer than their check. */
function isJson(value: unknown): boolean {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return true
  if (typeof value === 'number') return Number.isFinite(value)
  const isList = Array.isArray(value)
  if (!isList && (!isRecord(value) || Object.getPrototypeOf(value) !== Object.prototype))
    return false
  for (const inner of isList ? value : Object.values(value)) if (!isJson(inner)) return false
  return true
}

/**
 * The error that `ToolNode` and `createAgent` pass to the model. It shows the model's own arguments, because
 * the merged ones may contain sensitive values.
 */
function inputError(message: string, given: unknown): ToolInputParsingException {
  return new ToolInputParsingException(message.toWellFormed(), JSON.stringify(given) ?? '')
}
