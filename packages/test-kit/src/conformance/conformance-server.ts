import type { Server } from '@modelcontextprotocol/server'
import { McpServer } from '@modelcontextprotocol/server'
import { addAskingPrompt, addPrompts } from './prompts.ts'
import { addAskingTools } from './asking-tools.ts'
import { addContentTools } from './content-tools.ts'
import { addDiagnosticTools } from './diagnostic-tools.ts'
import { addResources } from './resources.ts'

/** What a {@link conformanceServer} cannot know by itself: who else there is to be told. */
export interface ConformanceServerOptions {
  /** Tells all clients that the list of tools changed. */
  readonly tellToolsChanged: () => void
  /** Tells all clients that the list of prompts changed. */
  readonly tellPromptsChanged: () => void
}

/**
 * The server that scenarios of the official conformance suite are written for, as far as a server of
 * agents has nothing of that kind to offer: its names and texts are those that the suite asks for. One
 * for each session or request, in either era; wire it up to whatever HTTP is to be tried.
 */
export function conformanceServer(options: ConformanceServerOptions): Server {
  const mcp = new McpServer(
    { name: 'conformance-fixture', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
    },
  )
  addContentTools(mcp)
  addAskingTools(mcp)
  addDiagnosticTools(mcp, options)
  addResources(mcp)
  addPrompts(mcp)
  addAskingPrompt(mcp)
  return mcp.server
}
