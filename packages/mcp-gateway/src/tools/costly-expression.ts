/**
 * Why a regular expression may take longer than anybody waits; `undefined` if it does not. JavaScript's own
 * engine goes back and tries again: a repetition in a repetition costs two to the power of the text's length,
 * and each further repetition multiplies by it. An expression that is refused here may be harmless; one that
 * is not is harmless for texts of a few hundred characters.
 */
export function costOf(expression: string): string | undefined {
  /** Whether each open group holds what multiplies when it is repeated. */
  const groups: boolean[] = [false]
  let repetitions = 0
  for (let at = 0; at < expression.length; at++) {
    const char = expression[at]
    let closes = false
    if (char === '\\') {
      if (/[1-9k]/.test(expression[at + 1] ?? '')) return 'it refers back to a group'
      at++
    } else if (char === '[') at = endOfClass(expression, at)
    else if (char === '(') {
      groups.push(false)
      continue
    } else if (char === '|') {
      groups[groups.length - 1] = true
      continue
    } else if (char === ')') closes = true
    const isCostly = closes && groups.length > 1 ? (groups.pop() ?? false) : false
    const repetition = /^(?:[*+]|\{\d+,\}|\{\d*,?(?:\d{3,}|[2-9]\d)\})/.exec(
      expression.slice(at + 1),
    )
    if (repetition !== null) {
      if (isCostly) return 'it repeats a group that holds a repetition or a choice'
      if (++repetitions > MAX_REPETITIONS) return `it has more than ${MAX_REPETITIONS} repetitions`
      at += repetition[0].length
    }
    if (repetition !== null || isCostly) groups[groups.length - 1] = true
  }
  return undefined
}

const MAX_REPETITIONS = 3

function endOfClass(expression: string, start: number): number {
  for (let at = start + 1; at < expression.length; at++) {
    if (expression[at] === '\\') at++
    else if (expression[at] === ']') return at
  }
  return expression.length
}
