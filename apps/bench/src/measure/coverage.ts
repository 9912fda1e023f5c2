import { Session } from 'node:inspector'
import type { Profiler } from 'node:inspector'

/** The functions of our packages that ran. */
export interface PathCounts {
  readonly functions: number
  readonly files: number
  /** One line for each file, with its functions. `()` is one without a name. */
  readonly text: string
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
  const files = scripts.flatMap(({ url, functions }) => {
    const [, file] = /\/packages\/([^/]+\/src\/.+)/.exec(url) ?? []
    const ran = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
    const names = ran.map(({ functionName }) => functionName || '()')
    return file === undefined || names.length === 0 ? [] : [{ file, names }]
  })
  return {
    functions: files.reduce((sum, { names }) => sum + names.length, 0),
    files: files.length,
    text: files.map(({ file, names }) => `${file}: ${names.join(', ')}`).join('\n'),
  }
}
