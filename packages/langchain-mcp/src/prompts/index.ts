// Everything exported here is public API.
import '../runtime-check.ts' // stays the first import
export { loadMcpPrompt } from './load-mcp-prompt.ts'
export type { McpPromptRequest } from './load-mcp-prompt.ts'
export type {
  McpPromptSource,
  PromptOptions,
  PromptResult,
  SdkPromptClient,
} from './prompt-source.ts'
