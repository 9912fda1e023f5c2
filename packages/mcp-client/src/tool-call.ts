import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import { BoundedMap } from '@x/internal'
import { SchemaCheck } from '@x/internal/schema-check'
import { McpClientError } from './errors.ts'
import { assertKey, metaOf } from './idempotency.ts'
import { toInputRequired } from './input-required.ts'
import type { InputRequired, TaskReference } from './input-required.ts'
import { headersOf } from './operation.ts'
import type { Lease, Operations, RequestOperation } from './operation.ts'
import type { CallOptions, CallToolOptions } from './options.ts'
import type { ScopeSlot } from './scope-slot.ts'
import { McpTask } from './task.ts'
import type { TaskOwner } from './task.ts'
import { assertReference, createReference } from './task-reference.ts'
import { parseTask } from './task-state.ts'

/** Servers choose the names of tools, so the memory for them is limited. */
const MAX_REPORTED_TOOLS = 1000

/** Calls the tools of one client, and continues their tasks. */
export class ToolCalls {
  readonly #operations: Operations
  /** Tools that were reported, because their results lack the structured content that they declare. */
  readonly #withoutStructure = new BoundedMap<string, true>(MAX_REPORTED_TOOLS)

  constructor(operations: Operations) {
    this.#operations = operations
  }

  /** Calls a tool, and `use` with its result, its questions or its task. */
  start<T>(
    { name, args }: { readonly name: string; readonly args: Readonly<Record<string, unknown>> },
    options: CallToolOptions,
    use: (started: CallToolResult | InputRequired | McpTask, lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    const { caller, idempotencyKey } = options
    const { server } = this.#operations
    assertKey(options, { tool: name, server })
    const meta = metaOf(options)
    const method = 'tools/call'
    const operation: RequestOperation<CallToolResult> = {
      method,
      tool: name,
      params: { name, arguments: { ...args }, ...(meta === undefined ? {} : { _meta: meta }) },
      schema: CallToolResultSchema,
      isSafe: false,
    }
    return this.#operations.use({ method, tool: name, caller }, options, async (lease) => {
      const { slot } = lease
      const result = await this.#operations.run(operation, lease)
      if (result['resultType'] !== 'task') {
        return use(toInputRequired(result) ?? this.checkedResult(result, name, slot), lease)
      }
      const task = parseTask(result)
      if (task === undefined) {
        const message = `tool "${name}" of MCP server "${server}" became a task that has no id or status: report it to the authors of the server`
        const about = { server, tool: name, outcome: 'unknown' } as const
        throw new McpClientError('UNEXPECTED_RESPONSE', message, about)
      }
      const reference = createReference(task, name, { slot, idempotencyKey })
      return use(new McpTask(this.#taskOwner(options), reference, task), lease)
    })
  }

  /**
   * Continues a task. Sends nothing yet.
   *
   * @param tool That the task must belong to. Undefined for any
   * @throws McpClientError `TASK_REFERENCE` for an invalid reference
   */
  resume(reference: TaskReference, tool?: string, options: CallOptions = {}): McpTask {
    assertReference(reference, { server: this.#operations.server, tool })
    return new McpTask(this.#taskOwner(options), reference)
  }

  /** The task keeps the scope and the headers of the call that it comes from, in memory. */
  #taskOwner(origin: Pick<CallOptions, 'scope' | 'headers'>): TaskOwner {
    const { server, timing, timeoutMs } = this.#operations
    const headers = headersOf(origin, server)
    return {
      server,
      timing,
      timeoutMs,
      use: (reference, options, run) => {
        const { tool, principal } = reference
        const call = { method: 'tools/call', tool, caller: options.caller }
        const { scope = origin.scope } = options
        const own = { ...options, scope, headers: headersOf(options, server) ?? headers }
        return this.#operations.use(call, own, async (lease) => {
          if ((lease.slot.scope?.principal ?? null) !== principal) {
            const message = `tool "${tool}" of MCP server "${server}": the task belongs to another principal: resume it in the scope in which it was started`
            const outcome = 'unknown'
            throw new McpClientError('TASK_REFERENCE', message, { server, tool, outcome })
          }
          return run(lease.slot, { ...own, signal: lease.options.signal }, lease.call)
        })
      },
      checkedResult: (result, tool, slot) => this.checkedResult(result, tool, slot),
    }
  }

  /**
   * Returns the result if it fits the output schema of the tool, as far as that is known. Structured content that is
   * missing is only a warning: many servers declare a schema and send a text (n8n-mcp#343).
   *
   * @throws McpClientError `INVALID_OUTPUT`
   */
  checkedResult(result: CallToolResult, name: string, slot: ScopeSlot): CallToolResult {
    const tool = slot.tools.find(name)
    if (tool?.outputSchema === undefined || result.isError === true) return result
    if (result.structuredContent === undefined) {
      if (this.#withoutStructure.has(name)) return result
      this.#withoutStructure.set(name, true)
      const what = 'declares an output schema, but its result has no structured content'
      slot.log('warning', `tool "${name}" ${what}`)
      return result
    }
    const problem = outputProblem(tool, result)
    if (problem === undefined) return result
    const { server } = this.#operations
    const message = `tool "${name}" of MCP server "${server}" has run, but its output ${problem}`
    const outcome = 'executed'
    throw new McpClientError('INVALID_OUTPUT', message, { server, tool: name, outcome, result })
  }
}

const checks = new WeakMap<object, SchemaCheck>()

/**
 * Checks structured content against the output schema of its tool (2025-06-18, server/tools, "Output Schema"). Returns
 * the problem, or undefined. A schema that cannot be used checks nothing.
 */
export function outputProblem({ outputSchema }: Tool, result: CallToolResult): string | undefined {
  if (outputSchema === undefined) return undefined
  let check = checks.get(outputSchema)
  if (check === undefined) {
    check = new SchemaCheck(outputSchema, { ignoreFormats: true })
    checks.set(outputSchema, check)
  }
  const errors = check.errors(result.structuredContent)
  return errors.length === 0 ? undefined : `does not fit its schema: ${errors.join('; ')}`
}
