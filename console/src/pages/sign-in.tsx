// Before a session, and after its end: how to get one.
import { useState, type FormEvent } from 'react';
import { enter, logIn, ticketOf, type Session } from '../api/session';
import { Button, Command, Failure, Loading, Words } from '../ui/basics';
import { TextInput } from '../ui/fields';

export function SignIn({ session }: { session: Session }) {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  if (session.state === 'entering') {
    return (
      <main className="sign-in">
        <Loading what="Signing in" />
      </main>
    );
  }
  const wasIn = session.state === 'out' && session.wasIn;
  const error = session.state === 'out' ? session.error : undefined;
  const go = (event: FormEvent) => {
    event.preventDefault();
    if (user !== '' && password !== '') void logIn(user, password);
  };
  return (
    <main className="sign-in">
      <div className="sign-in-box">
        <img src="/console/favicon.svg" alt="" width="40" height="40" />
        <h1>{wasIn ? 'Your session ended' : 'Ashlar console'}</h1>
        {error && <Failure error={error} />}
        <form onSubmit={go}>
          <TextInput label="User" value={user} onChange={setUser} autoComplete="username" />
          <TextInput label="Password" value={password} onChange={setPassword} isSecret autoComplete="current-password" />
          <Button type="submit" tone="primary" isDisabled={user === '' || password === ''}>
            Sign in
          </Button>
        </form>
        <Ticket />
      </div>
    </main>
  );
}

/// For who has the machine of the array and no user.
function Ticket() {
  const [text, setText] = useState('');
  const [isWrong, setWrong] = useState(false);
  const go = (event: FormEvent) => {
    event.preventDefault();
    const ticket = ticketOf(text);
    setWrong(ticket === null);
    if (ticket !== null) void enter(ticket);
  };
  return (
    <section aria-label="Sign in without a user">
      <p>
        <Words>
          Without a user: run this on the machine of the array. It prints an address that is good once, for a minute.
        </Words>
      </p>
      <Command text="ashlar console" />
      <form onSubmit={go}>
        <TextInput
          label="Paste the address or its ticket"
          value={text}
          onChange={setText}
          error={isWrong ? 'That is no address with a ticket. Copy the whole line that `ashlar console` prints.' : null}
          placeholder="http://127.0.0.1:…/console/#ticket=…"
        />
        <Button type="submit" isDisabled={text.trim() === ''}>
          Use the ticket
        </Button>
      </form>
    </section>
  );
}
