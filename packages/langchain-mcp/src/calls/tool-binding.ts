import type { ToolRunnableConfig } from '@langchain/core/tools'
import {
  ArgumentProperties,
  hasArgumentProperties,
} from '../argument-properties/argument-properties.ts'
import { invalidArgument } from '../argument-properties/argument-property.ts'
import type { NamedResource } from '../argument-properties/resolve-property.ts'
import type { InputResolver } from '../argument-properties/run-input.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import { parameterText } from '../schema/definition-drift.ts'
import { schemaDefectOf } from '../schema/schema-defect.ts'
import {
  projectedSchema,
  type ProjectedSchema,
  type SchemaProjection,
} from '../schema/schema-projection.ts'
import { linesOf, SchemaCheck } from './schema-check.ts'
import { driftOf } from './self-healing.ts'
import { acceptedArguments, jsonArgumentsFrom } from './tool-arguments.ts'
import type { ToolLog } from '../tool-log.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { JsonSchema, McpToolSource, ToolDefinition } from '../catalogue/tool-source.ts'

export interface ToolBindingFields {
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
