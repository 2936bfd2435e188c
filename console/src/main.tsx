// Starts the console: colours, session, live stream, page.
import { createRoot } from 'react-dom/client';
import { I18nProvider } from 'react-aria-components';
import { App } from './app';
import { startLive } from './api/live';
import { takeTicket } from './api/session';
import { startRights } from './state/rights';
import { startTheme } from './state/theme';
import './styles/base.css';
import './styles/layout.css';
import './styles/controls.css';
import './styles/content.css';

startTheme();
takeTicket();
window.addEventListener('hashchange', takeTicket);
startLive();
startRights();
const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <I18nProvider locale="en-US">
      <App />
    </I18nProvider>,
  );
}
