/** What a session belongs to, beside the server and the principal. */
export type SessionMode = 'run' | 'thread' | 'shared'
