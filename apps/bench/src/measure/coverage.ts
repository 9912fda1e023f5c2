import { Session } from 'node:inspector'
import type { Profiler } from 'node:inspector'

/** Number of functions and files of our packages that ran. */
export interface PathCounts {
  readonly functions: number
  readonly files: number
}

/** Starts to count. Returns a function that ends the count when it is called for the first time. */
export function startCoverage(): () => PathCounts {
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  let counts: PathCounts | undefined
  return () => {
    if (counts !== undefined) return counts
    // The session calls back before `post` returns.
    session.post('Profiler.takePreciseCoverage', (_error, { result }) => {
      counts = countsIn(result)
    })
    session.disconnect()
    if (counts === undefined) throw new Error('The coverage could not be read')
    return counts
  }
}

function countsIn(scripts: readonly Profiler.ScriptCoverage[]): PathCounts {
  const counts = scripts
    .filter(({ url }) => /\/packages\/[^/]+\/src\//.test(url))
    .map(({ functions }) => functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length)
    .filter((count) => count > 0)
  return { functions: counts.reduce((sum, count) => sum + count, 0), files: counts.length }
}
