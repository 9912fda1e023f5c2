import { fileURLToPath } from 'node:url'

/**
 * Path of a Node.js that runs the sources unchanged: `using` is native from Node 24. On an older Node.js, tests
 * use the one of the workspace for their child processes.
 */
export const sourceNode: string =
  Number.parseInt(process.versions.node, 10) >= 24
    ? process.execPath
    : fileURLToPath(new URL('../../../../node_modules/.bin/node', import.meta.url))
