// Everything exported here is public API.
export { loadMcpPrompt } from './load-mcp-prompt.ts'
export type { McpPromptRequest } from './load-mcp-prompt.ts'
export type {
  McpPromptSource,
  PromptOptions,
  PromptResult,
  SdkPromptClient,
} from './prompt-source.ts'
