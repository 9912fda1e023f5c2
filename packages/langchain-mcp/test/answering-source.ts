import { ArgumentProperties } from '../src/definitions/argument-properties.ts'
import { McpTool, type McpToolFields, type McpToolOptions } from '../src/tools/mcp-tool.ts'
import type {
  McpToolSource,
  ToolCallOptions,
  ToolDefinition,
  ToolResult,
} from '../src/tool-source.ts'

export interface ReceivedCall {
  readonly name: string
  readonly args: Record<string, unknown> | undefined
  readonly options: ToolCallOptions | undefined
}

/** A source that answers each call with the given result, or fails with the given error. */
export class AnsweringSource implements McpToolSource {
  readonly calls: ReceivedCall[] = []
  readonly #answer: ToolResult | Error

  constructor(answer: ToolResult | Error = textResult('done')) {
    this.#answer = answer
  }

  listTools(): Promise<readonly ToolDefinition[]> {
    return Promise.resolve([])
  }

  callTool(...[name, args, options]: Parameters<McpToolSource['callTool']>): Promise<ToolResult> {
    this.calls.push({ name, args, options })
    return this.#answer instanceof Error
      ? Promise.reject(this.#answer)
      : Promise.resolve(this.#answer)
  }
}

export function textResult(text: string, more: Partial<ToolResult> = {}): ToolResult {
  return { content: [{ type: 'text', text }], ...more }
}

export const shop = { slug: 'shop', name: 'Shop', folderPath: 'Shared' }
export const addItem: ToolDefinition = {
  name: 'add item',
  description: 'Puts something into the cart',
  inputSchema: {
    type: 'object',
    properties: { item: { type: 'string' }, count: { type: 'integer' } },
    required: ['item'],
  },
}

type TestFields = Partial<McpToolFields> &
  Pick<McpToolFields, 'source'> & {
    readonly argumentProperties?: Readonly<Record<string, unknown>>
  }

/** A tool with the given fields, and defaults for the others. */
export function toolFrom({ argumentProperties, ...fields }: TestFields): McpTool {
  const { definition = addItem, server = shop, options = {}, log = () => {} } = fields
  const about = {
    origin: { server, toolName: definition.name },
    log,
    input: options.input,
    resources: [],
  }
  return new McpTool({
    name: 'add_item',
    definition: addItem,
    server: shop,
    options: {},
    log: () => {},
    pins: undefined,
    refreshBeforeCall: false,
    fixed: argumentProperties && new ArgumentProperties(argumentProperties, about),
    ...fields,
  })
}

export function toolOver(
  source: McpToolSource,
  definition: Partial<ToolDefinition> = {},
  options: McpToolOptions = {},
): McpTool {
  return toolFrom({ definition: { ...addItem, ...definition }, source, options })
}

export function toolCall(args: Record<string, unknown>): {
  readonly type: 'tool_call'
  readonly id: string
  readonly name: string
  readonly args: Record<string, unknown>
} {
  return { type: 'tool_call', id: 'call-1', name: 'add_item', args }
}
