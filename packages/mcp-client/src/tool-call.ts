import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { McpClientError } from './errors.ts'
import { keyedMeta } from './idempotency.ts'
import { toInputRequired } from './input-required.ts'
import type { InputRequired } from './input-required.ts'
import type { Lease, Operations, RequestOperation } from './operation.ts'
import type { CallToolOptions } from './options.ts'
import { McpTask } from './task.ts'
import { createReference, parseTask } from './task-data.ts'
import { checkedResult } from './output-check.ts'

/** Calls a tool, and `use` with its result, its questions or its task. */
export function startCall<T>(
  operations: Operations,
  {
    name,
    args,
    options,
  }: {
    readonly name: string
    readonly args: Readonly<Record<string, unknown>>
    readonly options: CallToolOptions
  },
  use: (started: CallToolResult | InputRequired | McpTask, lease: Lease) => T | Promise<T>,
): Promise<T> {
  const { caller, idempotencyKey, sentAt } = options
  const { server } = operations
  const isKeyed = idempotencyKey !== undefined || sentAt !== undefined
  const meta = isKeyed ? keyedMeta(options, { tool: name, server }) : options.meta
  const method = 'tools/call'
  const operation: RequestOperation<CallToolResult> = {
    method,
    tool: name,
    params: { name, arguments: { ...args }, ...(meta === undefined ? {} : { _meta: { ...meta } }) },
    schema: CallToolResultSchema,
    isSafe: false,
  }
  return operations.use({ method, tool: name, caller }, options, async (lease) => {
    const { slot } = lease
    const result = await operations.run(operation, lease)
    if (result['resultType'] !== 'task') {
      return use(toInputRequired(result) ?? checkedResult(result, name, slot), lease)
    }
    const task = parseTask(result)
    if (task === undefined) {
      const message = `tool "${name}" of MCP server "${server}" became a task that has no id or status: report it to the authors of the server`
      const about = { server, tool: name, outcome: 'unknown' } as const
      throw new McpClientError('UNEXPECTED_RESPONSE', message, about)
    }
    const reference = createReference(task, name, { slot, idempotencyKey })
    return use(new McpTask(operations, { reference, origin: options, task }), lease)
  })
}
