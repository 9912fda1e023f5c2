import type { McpClientOptions } from '@x/mcp-client'
import type { BuildToolsOptions } from '../catalogue/build-tools.ts'

/** The limit of a call is for both: a client keeps it for all that it sends. */
type OfToolsAlone = Exclude<
  keyof BuildToolsOptions | 'createClient' | 'onServerError',
  keyof McpClientOptions
>

/** A list that the compiler keeps complete. */
const OF_TOOLS_ALONE: Readonly<Record<OfToolsAlone, true>> = {
  allow: true,
  approve: true,
  createClient: true,
  deny: true,
  elicitation: true,
  input: true,
  interceptors: true,
  log: true,
  maxMediaBytes: true,
  maxTextCharacters: true,
  mock: true,
  onNameCollision: true,
  onQuarantine: true,
  onServerError: true,
  onToolError: true,
  output: true,
  pin: true,
  prefixToolNames: true,
  projection: true,
  refreshSchemaBeforeCall: true,
  showToModel: true,
  tellSessionReplaced: true,
}

/** What of the options for tools and clients a client is made with. */
export function clientOptionsFrom(options: BuildToolsOptions & McpClientOptions): McpClientOptions {
  const own = Object.entries(options).filter(([name]) => !Object.hasOwn(OF_TOOLS_ALONE, name))
  return Object.fromEntries(own)
}
