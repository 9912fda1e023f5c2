import type {
  CallToolResult,
  InputRequiredResult,
  McpServer,
  ServerContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
  ToolCallback,
} from '@modelcontextprotocol/server'
import type { ModernState } from './modern-state.ts'

/** A fixture of the modern server. */
interface ModernTool<Input extends StandardSchemaWithJSON> {
  readonly name: string
  readonly description: string
  readonly input: Input
  readonly output?: StandardSchemaWithJSON | undefined
  readonly annotations?: ToolAnnotations | undefined
  readonly run: (
    args: StandardSchemaWithJSON.InferOutput<Input>,
    context: ServerContext,
  ) => ModernResult | Promise<ModernResult>
}

/** What a tool may end with. */
export type ModernResult = CallToolResult | InputRequiredResult

/** Registers tools whose runs are followed. */
export type RegisterTool = <Input extends StandardSchemaWithJSON>(tool: ModernTool<Input>) => void

/** A `RegisterTool` for the server object of one request. */
export function registerOn(server: McpServer, state: ModernState): RegisterTool {
  return (tool) => {
    const { name, description, annotations, input, output } = tool
    const config = {
      description,
      inputSchema: input,
      ...(output === undefined ? {} : { outputSchema: output }),
      ...(annotations === undefined ? {} : { annotations }),
    }
    const run: ModernTool<typeof input>['run'] = (args, context) =>
      state.runs.track({
        tool: name,
        args,
        signal: context.mcpReq.signal,
        run: () => tool.run(args, context),
      })
    // The SDK's type asks whether `Input` is a schema, which a generic function cannot know yet.
    server.registerTool(name, config, run as ToolCallback<typeof input>)
  }
}
