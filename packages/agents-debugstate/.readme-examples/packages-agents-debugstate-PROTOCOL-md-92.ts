interface Problem {
  // RFC 9457, application/problem+json
  type: 'about:blank'
  title: string
  status: number
  detail: string // the error, and the rule that the request broke
  code: string
}
export {}
