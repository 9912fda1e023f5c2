import { withErrorLink } from './error-link.ts'

/** The oldest Node.js that runs the packages: the same as `engines` in each package.json. */
const OLDEST_NODE = '22.19'

/**
 * Refuses a Node.js that is too old. Each package has a module of its own that calls this, and imports it before
 * anything else: imports are evaluated in order, and undici throws an error of its own on an old Node.js.
 *
 * @param packageName the package that the user imports
 * @throws Error with `code: 'CONFIG'`
 */
export function assertRuntime(packageName: string): void {
  const problem = runtimeProblem(packageName, process.versions.node)
  if (problem === undefined) return
  throw Object.assign(new Error(withErrorLink(problem, 'CONFIG')), { code: 'CONFIG' })
}

/** Returns a sentence about a Node.js that is too old, `undefined` for others. */
export function runtimeProblem(packageName: string, node: string): string | undefined {
  const [major = 0, minor = 0] = node.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE.split('.').map(Number)
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return undefined
  return `${packageName} needs Node.js ${OLDEST_NODE} or newer, but this is Node.js ${node}. Install a newer Node.js, or select one with your version manager.`
}
