/** In so many pieces a time is counted. */
const PIECES = 8

/**
 * Calls back after so much time in which this process could have read an answer. While it loads a graph, say, it does
 * nothing else, and a timer alone would take that for a server that is silent: what holds a piece up counts as that
 * piece, and what has arrived by the last one is read first.
 *
 * @returns the undo
 */
export function afterAwake(ms: number, callback: () => void): () => void {
  let left = PIECES
  let timer: NodeJS.Timeout
  let last: NodeJS.Immediate | undefined
  const onPiece = (): void => {
    left -= 1
    if (left > 0) wait()
    else last = setImmediate(callback)
  }
  const wait = (): void => {
    timer = setTimeout(onPiece, ms / PIECES)
  }
  wait()
  return () => {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

/** Of what was not begun yet. */
export const noUndo = (): void => undefined
