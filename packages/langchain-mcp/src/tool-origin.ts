/** Which server a tool comes from. At least one of `slug` and `name` tells it from others. */
export interface McpServerLabel {
  /** By which a directory knows it. */
  readonly slug?: string | undefined
  /** As in the config or the agent definition, for people. */
  readonly name?: string | undefined
  /** The folder of the directory that it is in. */
  readonly folderPath?: string | undefined
}

/** What stands behind the name that a model sees: the exact way back to the server and its own name for the tool. */
export interface McpToolOrigin {
  readonly server: McpServerLabel
  /** The name on the wire. */
  readonly toolName: string
}

/** How a server is called in messages. */
export function serverTitle(server: McpServerLabel): string {
  return server.slug ?? server.name ?? 'unnamed'
}

/** Equal for equal origins, and for no others. */
export function originKey({ server, toolName }: McpToolOrigin): string {
  return JSON.stringify([server.folderPath ?? '', server.slug ?? server.name ?? '', toolName])
}
