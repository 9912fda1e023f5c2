import { fileURLToPath } from 'node:url'

/**
 * A Node that runs our sources as they are: `using` is native from Node 24. Tests that run on an older one
 * take that of the workspace for their child processes.
 */
export const sourceNode: string =
  Number.parseInt(process.versions.node, 10) >= 24
    ? process.execPath
    : fileURLToPath(new URL('../../../../node_modules/.bin/node', import.meta.url))
