/** One check of a scenario, as far as we report it. */
export interface Check {
  readonly name: string
  readonly status: string
  readonly description: string
  readonly errorMessage?: string
}

/** The checks in the suite's verbose output, whatever it says before and after them; none where there are none. */
export function checksFrom(stdout: string): readonly Check[] {
  const [list = ''] = /^\[$[^]*^\]$|^\[.*\]$/m.exec(stdout) ?? []
  try {
    const value: unknown = JSON.parse(list)
    return Array.isArray(value) ? value.filter(isCheck) : []
  } catch {
    return []
  }
}

export function hasSucceeded(checks: readonly Check[]): boolean {
  return checks.some(({ status }) => status === 'SUCCESS')
}

/** What the suite holds against what it tried, one line each; a warning counts, as it does for the suite. */
export function failedChecks(checks: readonly Check[]): readonly string[] {
  return checks
    .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    .map(({ name, status, description, errorMessage }) =>
      [`${status} ${name}`, description, errorMessage].filter(Boolean).join(': '),
    )
}

function isCheck(value: unknown): value is Check {
  if (typeof value !== 'object' || value === null) return false
  const hasText = ['name', 'status', 'description'].every(
    (key) => typeof Reflect.get(value, key) === 'string',
  )
  const errorMessage: unknown = Reflect.get(value, 'errorMessage')
  return hasText && (errorMessage === undefined || typeof errorMessage === 'string')
}
