import type { AuthProvider } from '@x/mcp-transport'

/**
 * A server as a directory describes it. Every field is optional because directories differ; fields that
 * are not named here are kept.
 */
export interface McpServer {
  readonly id?: string | undefined
  /** Display name, for people. */
  readonly name?: string | undefined
  /** Stable short name, for machines. */
  readonly slug?: string | undefined
  readonly description?: string | undefined
  readonly version?: string | undefined
  readonly folderPath?: string | undefined
  readonly folderKey?: string | undefined
  /** The Streamable HTTP endpoint. Where there is one, it is used, and `command` is not. */
  readonly mcpUrl?: string | null | undefined
  /** Sent with every request to the server, unless the client's own `headers` say otherwise. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /**
   * Gets the tokens for this server. Used where neither the client has an `authProvider` nor the server has
   * an `authorization` header. An answer from the network cannot set it.
   */
  readonly authProvider?: AuthProvider | undefined
  /** Names of further headers, whose values the client's `secrets` gives. */
  readonly secretHeaderKeys?: readonly string[] | undefined
  /** The program that is the server, if it is spoken to over stdio. */
  readonly command?: string | undefined
  readonly arguments?: readonly string[] | undefined
  /** Added to the little that a child process inherits. */
  readonly environmentVariables?: Readonly<Record<string, string>> | undefined
  /** Names of further variables, whose values the client's `secrets` gives. */
  readonly secretEnvKeys?: readonly string[] | undefined
  /** Where the program runs. */
  readonly cwd?: string | undefined
  readonly [key: string]: unknown
}
