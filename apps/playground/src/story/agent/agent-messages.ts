/** What the story says to an agent process. */
export type ToAgent =
  | { readonly type: 'ask'; readonly text: string }
  /** Become an MCP server, for whoever has the token. */
  | { readonly type: 'offer'; readonly token: string }
  /** Be one no longer, and go on. */
  | { readonly type: 'withdraw' }
  | { readonly type: 'stop' }

/** What an agent process says. */
export type FromAgent =
  | { readonly type: 'ready' }
  | { readonly type: 'answer'; readonly text: string }
  | { readonly type: 'offered'; readonly url: string }
  /** `runs`: how often others had it run. */
  | { readonly type: 'withdrawn'; readonly runs: number }
  | { readonly type: 'failed'; readonly message: string }

/** How an agent process is told what to run; its servers and store come with the environment, too. */
export interface AgentProcessEnvironment {
  readonly AGENT_FILE: string
  /** JSON: slug → URL */
  readonly AGENT_SERVERS: string
  readonly AGENT_EXECUTION_TYPE: string
  /** `team`: an agent with a sub-agent. */
  readonly AGENT_KIND: 'single' | 'team'
}
